"""The cancellation of a batch, by those of its requests."""

from __future__ import annotations

from nnhal_service.serving import Cancellation, InferenceRequest
from nnhal_service.serving.queue.batch import QueuedRequest, cancellation_of


def batch(*cancellations: Cancellation) -> list[QueuedRequest]:
    return [QueuedRequest(InferenceRequest({}, cancellation=each), (), 1, None) for each in cancellations]


def test_a_batch_is_cancelled_when_all_of_it_is() -> None:
    requests, seen = [Cancellation() for _ in range(3)], list[str]()
    whole = cancellation_of(batch(*requests))

    def first() -> None:
        seen.append("first")

    def second() -> None:
        seen.append("second")

    whole.on_cancel(first)
    whole.on_cancel(second)
    for request in requests[:2]:
        request.cancel()
        assert not whole.cancelled and seen == []
    whole.forget(first)
    whole.forget(first)
    requests[2].cancel()
    assert whole.cancelled and seen == ["second"]
    whole.on_cancel(first)
    assert "first" in seen


def test_a_request_alone_is_its_own_batch() -> None:
    cancellation = Cancellation()
    assert cancellation_of(batch(cancellation)) is cancellation
