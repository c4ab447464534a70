from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from grpc import RpcError, StatusCode

from nnhal.arrays import Array
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.v2.grpc import GrpcLimits
from tests.support.v2 import FakeModel, floats, in_bytes, raw_request, streamed_in_bytes
from tests.support.v2_front import Served, serving


def stream(
    served: Served, requests: Iterable[wire.ModelInferRequest], by_status: bool = False
) -> Iterator[wire.ModelStreamInferResponse]:
    method = served.channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        wire.ModelInferRequest.SerializeToString,
        wire.ModelStreamInferResponse.FromString,
    )
    metadata = (("triton_grpc_error", "true"),) if by_status else ()
    return iter(method(iter(requests), timeout=30, metadata=metadata, wait_for_ready=True))


def numbered(name: str, model: str = "echo") -> wire.ModelInferRequest:
    request = raw_request(model, x=floats(1))
    request.id = name
    return request


def test_a_request_that_fails_costs_the_others_nothing(served: Served) -> None:
    answers = list(stream(served, [numbered("a"), numbered("b", "other"), numbered("c")]))
    assert [answer.infer_response.id for answer in answers] == ["a", "b", "c"]
    assert [answer.error_message for answer in answers] == ["", "Request for unknown model: 'other' is not found", ""]
    assert answers[1].infer_response == wire.ModelInferResponse(id="b")


def test_errors_are_statuses_for_those_who_ask(served: Served) -> None:
    answers = stream(served, [numbered("a"), numbered("b", "other"), numbered("c")], by_status=True)
    assert next(answers).infer_response.id == "a"
    with pytest.raises(RpcError) as got:
        next(answers)
    assert got.value.code() == StatusCode.NOT_FOUND
    assert len(served.model.requests) == 1


def test_bytes_that_are_no_message_are_answered_with_an_error(served: Served) -> None:
    method = streamed_in_bytes(served.channel)
    requests = iter([b"\x0f", numbered("a").SerializeToString()])
    first, second = map(wire.ModelStreamInferResponse.FromString, method(requests, timeout=30, wait_for_ready=True))
    assert first.error_message == "the request is not a valid message of ModelStreamInfer"
    assert second.infer_response.id == "a"


def test_a_stream_that_is_cancelled_cancels_the_request_that_runs(short_path: Path) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def wait(request: InferenceRequest) -> dict[str, Array]:
        request.cancellation.on_cancel(cancelled.set)
        begun.set()
        cancelled.wait(30)
        raise ServingError(ErrorKind.CANCELLED, "cancelled")

    with serving(short_path, FakeModel(wait)) as served:
        method = streamed_in_bytes(served.channel)
        answers = method(iter([numbered("a").SerializeToString()]), wait_for_ready=True)
        assert begun.wait(30)
        answers.cancel()  # type: ignore[no-untyped-call]
        assert cancelled.wait(30)


def test_there_are_as_many_streams_as_the_limit_says(short_path: Path) -> None:
    limits = GrpcLimits(calls=2, streams=2)
    with serving(short_path, FakeModel(), limits) as served, ExitStack() as stack:
        end = threading.Event()
        stack.callback(end.set)
        # Held, since a stream without references is cancelled.
        held = [stream(served, _until(end)) for _ in range(limits.streams)]
        assert [next(answers).infer_response.id for answers in held] == ["a", "a"]
        with pytest.raises(RpcError, match="2 streams are open") as got:
            next(stream(served, [numbered("a")]))
        assert got.value.code() == StatusCode.RESOURCE_EXHAUSTED
        # Calls have threads of their own.
        method = in_bytes(served.channel, "ModelInfer")
        assert method(numbered("b").SerializeToString(), timeout=30)


def test_a_stream_that_has_ended_makes_room(short_path: Path) -> None:
    with serving(short_path, FakeModel(), GrpcLimits(calls=1, streams=1)) as served:
        for _ in range(5):
            assert len(list(stream(served, [numbered("a")]))) == 1


def _until(end: threading.Event) -> Iterator[wire.ModelInferRequest]:
    yield numbered("a")
    end.wait(30)
