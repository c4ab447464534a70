"""Messages of unary calls that take their time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode

from nnhal_service.v2.grpc import GrpcLimits
from tests.support.idle_calls import half_sent, idle_calls, is_healthy
from tests.support.v2 import FakeModel, infer, raw_request
from tests.support.v2_front import Served, serving
from tests.support.waiting import wait_until

INFER = "/inference.GRPCInferenceService/ModelInfer"
RECEIVES = 2
CALLS = 40


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    with serving(short_path, FakeModel(), GrpcLimits(receives=RECEIVES)) as front:
        yield front


def address(served: Served) -> str:
    return served.front.addresses[0]


@pytest.mark.slow
def test_calls_without_their_message_keep_others_waiting_for_a_second_at_most(served: Served) -> None:
    with idle_calls(address(served), 3 * RECEIVES, half_sent(INFER)) as calls:
        wait_until(lambda: sum(call.done() for call in calls) == 2 * RECEIVES, "they make room for one another")
        infer(served.channel, raw_request(x=np.zeros(3, np.float32)))
        wait_until(lambda: sum(call.done() for call in calls) == 2 * RECEIVES + 1, "one makes room for the request")
        assert {(call.code(), call.details()) for call in calls if call.done()} == {
            (
                StatusCode.RESOURCE_EXHAUSTED,
                "the message has not come within 1 s, while other calls wait to send theirs",
            )
        }


@pytest.mark.slow
def test_a_request_ends_no_more_calls_than_it_needs(served: Served) -> None:
    with idle_calls(address(served), RECEIVES, half_sent(INFER)) as calls:
        infer(served.channel, raw_request(x=np.zeros(3, np.float32)))
        infer(served.channel, raw_request(x=np.zeros(3, np.float32)))
        assert sum(call.done() for call in calls) <= 1


def test_a_call_that_is_given_up_makes_room(served: Served) -> None:
    with idle_calls(address(served), CALLS, half_sent(INFER)) as calls:
        for call in calls:
            call.cancel()
        infer(served.channel, raw_request(x=np.zeros(3, np.float32)))


def test_a_call_without_a_request_is_refused(served: Served) -> None:
    with idle_calls(address(served), 1, half_sent(INFER, messages=())) as calls:
        call: Any = calls[0]
        assert (call.exception(20).code(), call.details()) == (
            StatusCode.INVALID_ARGUMENT,
            "a call without a request, expected one message",
        )


def test_health_waits_for_no_other_message(served: Served) -> None:
    with idle_calls(address(served), RECEIVES, half_sent(INFER)):
        assert is_healthy(address(served))
