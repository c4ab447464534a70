"""The rows of the contract about preparing models: the notification, and the end of the call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from nnhal.memory import create_ashmem
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    Model,
)
from nnhal.v1 import device_pb2
from tests.support.additions import addition_in_ashmem, addition_model, addition_of_constant
from tests.support.entry_points import PLAIN, Target, synchronously
from tests.support.preparations import (
    Arguments,
    Outcome,
    Prepare,
    assert_notified_and_thrown,
    assert_only_notified,
    kinds,
    prepare_model,
    prepare_model_with_config,
)
from tests.support.processes import own_device
from tests.support.refusals import INVALID
from tests.support.wire import NO_TOKEN, WireDevice

EXPIRED_NS = 1


@pytest.fixture(params=[prepare_model, prepare_model_with_config])
def prepare(request: pytest.FixtureRequest) -> Prepare:
    chosen: Prepare = request.param
    return chosen


@pytest.fixture(scope="module")
def null() -> Iterator[WireDevice]:
    """Open a session with a device that supports nothing."""
    with (
        own_device("null") as (_, endpoint),
        WireDevice(endpoint) as wire,
    ):
        yield wire


def assert_prepared(wire: WireDevice, outcome: Outcome) -> None:
    """Check that the call succeeds, and that the callback gets a prepared model that works."""
    events, error = outcome
    assert error is None, str(error)
    assert kinds(events) == ["launched", "notified"]
    notified = events[1].notified
    assert (notified.status, notified.message) == (0, "")
    target, addition = Target(wire, notified.prepared_model), addition_in_ashmem()
    addition.check(lambda: synchronously(target, addition.request, PLAIN, NO_DEADLINE), 1, 2)


def without_outputs(model: Model) -> Model:
    return replace(model, main=replace(model.main, output_indexes=()))


@pytest.mark.contract("PM-03")
def test_a_model_whose_pool_is_not_what_it_says_is_invalid(wire: WireDevice, prepare: Prepare) -> None:
    weights = create_ashmem(64)
    model = addition_of_constant(replace(weights, size=65))
    assert_notified_and_thrown(prepare(wire, model, Arguments()), INVALID, "needs 65 bytes")


@pytest.mark.contract("PM-03")
def test_a_refused_preparation_ends_with_the_matching_grpc_status(wire: WireDevice) -> None:
    message = device_pb2.PrepareModelRequest(model=wire.model(without_outputs(addition_model())), token=NO_TOKEN)
    with pytest.raises(grpc.RpcError) as caught:
        list(wire.device.PrepareModel(message, metadata=wire.metadata))
    call: Any = caught.value
    assert call.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_deadline_that_has_passed_is_notified_but_not_thrown(wire: WireDevice, prepare: Prepare) -> None:
    outcome = prepare(wire, addition_model(), Arguments(deadline_ns=EXPIRED_NS))
    assert_only_notified(outcome, ErrorStatus.MISSED_DEADLINE_PERSISTENT, "had passed")


def test_cache_files_do_not_influence_a_preparation(wire: WireDevice, prepare: Prepare) -> None:
    assert_prepared(wire, prepare(wire, addition_model(), Arguments(cache=[12345, 0], token=bytes(range(32)))))


@pytest.mark.parametrize(
    ("message", "status", "words"),
    [
        (device_pb2.PrepareModelFromCacheRequest(deadline_ns=-1, token=NO_TOKEN), INVALID, "0 model-cache"),
        (device_pb2.PrepareModelFromCacheRequest(deadline_ns=-1, token=bytes(31)), INVALID, "31 bytes"),
        (device_pb2.PrepareModelFromCacheRequest(deadline_ns=-2, token=NO_TOKEN), INVALID, "deadline -2"),
    ],
)
def test_a_preparation_from_cache_with_bad_arguments_is_notified_and_thrown(
    wire: WireDevice, message: device_pb2.PrepareModelFromCacheRequest, status: ErrorStatus, words: str
) -> None:
    assert_notified_and_thrown(wire.events(wire.device.PrepareModelFromCache, message), status, words)
