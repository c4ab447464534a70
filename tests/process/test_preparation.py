"""The rows of the contract about preparing models: the notification, and the end of the call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    ExtensionNameAndPrefix,
    Model,
    TokenValuePair,
)
from nnhal.v1 import device_pb2
from tests.support.additions import addition_in_ashmem, addition_model, addition_of_constant, additions_in_a_cycle
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
from tests.support.processes import device_process
from tests.support.refusals import INVALID, refusal
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
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        device_process("null", Path(directory)) as (_, endpoint),
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


@pytest.mark.contract("PM-01", "PM-14")
@pytest.mark.parametrize("preference", [0, 1, 2])
@pytest.mark.parametrize("priority", [0, 1, 2])
def test_a_valid_model_is_launched_and_notified_once(
    wire: WireDevice, prepare: Prepare, preference: int, priority: int
) -> None:
    assert_prepared(wire, prepare(wire, addition_model(), Arguments(preference, priority)))


@pytest.mark.contract("PM-02", "PM-14")
def test_a_valid_model_that_is_not_supported_is_launched_and_notified_with_an_error(
    null: WireDevice, prepare: Prepare
) -> None:
    outcome = prepare(null, addition_model(), Arguments())
    assert_only_notified(outcome, INVALID, "operation 0 (ADD) is not supported by null: NO_IMPL")


def without_an_operation_input(model: Model) -> Model:
    (operation,) = model.main.operations
    return replace(model, main=replace(model.main, operations=(replace(operation, inputs=operation.inputs[:1]),)))


def without_outputs(model: Model) -> Model:
    return replace(model, main=replace(model.main, output_indexes=()))


def with_an_operand_of_no_type(model: Model) -> Model:
    operands = (replace(model.main.operands[0], type=16), *model.main.operands[1:])
    return replace(model, main=replace(model.main, operands=operands))


def with_a_negative_dimension(model: Model) -> Model:
    operands = (replace(model.main.operands[0], dimensions=(-1,)), *model.main.operands[1:])
    return replace(model, main=replace(model.main, operands=operands))


def with_constants_beyond_the_values(model: Model) -> Model:
    return replace(model, operand_values=b"")


def with_an_index_that_is_not_there(model: Model) -> Model:
    (operation,) = model.main.operations
    return replace(model, main=replace(model.main, operations=(replace(operation, inputs=(0, 1, 99)),)))


@pytest.mark.contract("PM-03", "PM-14")
@pytest.mark.parametrize(
    "spoil",
    [
        without_an_operation_input,
        without_outputs,
        with_an_operand_of_no_type,
        with_a_negative_dimension,
        with_constants_beyond_the_values,
        with_an_index_that_is_not_there,
    ],
)
def test_an_invalid_model_is_notified_and_thrown(
    wire: WireDevice, prepare: Prepare, spoil: Callable[[Model], Model]
) -> None:
    assert_notified_and_thrown(prepare(wire, spoil(addition_model()), Arguments()), INVALID, "")


@pytest.mark.contract("BA-03")
def test_a_model_with_a_cycle_is_invalid(wire: WireDevice, prepare: Prepare) -> None:
    model = additions_in_a_cycle()
    message = device_pb2.GetSupportedOperationsRequest(model=wire.model(model))
    refusal(lambda: wire.call(wire.device.GetSupportedOperations, message), INVALID, "no earlier operation writes")
    assert_notified_and_thrown(prepare(wire, model, Arguments()), INVALID, "no earlier operation writes")


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


@pytest.mark.contract("PM-04", "PM-05", "PM-07", "PM-08", "PM-14")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (Arguments(preference=-1), "preference -1, expected 0 to 2"),
        (Arguments(preference=3), "preference 3, expected 0 to 2"),
        (Arguments(priority=-1), "priority -1, expected 0 to 2"),
        (Arguments(priority=3), "priority 3, expected 0 to 2"),
        (Arguments(deadline_ns=-2), "deadline -2 ns"),
        (Arguments(token=bytes(31)), "31 bytes, expected 32"),
        (Arguments(token=bytes(33)), "33 bytes, expected 32"),
    ],
)
def test_an_invalid_argument_is_notified_and_thrown(
    wire: WireDevice, prepare: Prepare, arguments: Arguments, words: str
) -> None:
    assert_notified_and_thrown(prepare(wire, addition_model(), arguments), INVALID, words)


def test_a_deadline_that_has_passed_is_notified_but_not_thrown(wire: WireDevice, prepare: Prepare) -> None:
    outcome = prepare(wire, addition_model(), Arguments(deadline_ns=EXPIRED_NS))
    assert_only_notified(outcome, ErrorStatus.MISSED_DEADLINE_PERSISTENT, "had passed")


def test_cache_files_do_not_influence_a_preparation(wire: WireDevice, prepare: Prepare) -> None:
    assert_prepared(wire, prepare(wire, addition_model(), Arguments(cache=[12345, 0], token=bytes(range(32)))))


NAMES = (ExtensionNameAndPrefix("org.example.hints", 7),)
HINT = TokenValuePair(7 << 16 | 1, b"x")


@pytest.mark.contract("PM-15")
def test_hints_are_checked_and_otherwise_ignored(wire: WireDevice) -> None:
    def prepare(*hints: TokenValuePair) -> Outcome:
        arguments = Arguments(hints=hints, extension_names=NAMES)
        return prepare_model_with_config(wire, addition_model(), arguments)

    assert_prepared(wire, prepare(HINT, TokenValuePair(7 << 16 | 0xFFFF, b"")))
    assert_notified_and_thrown(prepare(HINT, HINT), INVALID, "not unique")
    assert_notified_and_thrown(prepare(TokenValuePair(8 << 16 | 1, b"")), INVALID, "mapped to no extension")


@pytest.mark.contract("PM-16")
@pytest.mark.parametrize("operations", [1, 2, 7])
def test_support_is_answered_for_each_operation(device: RemoteDevice, null: WireDevice, operations: int) -> None:
    model = addition_model(operations=operations)
    assert device.supported_operations(model) == [True] * operations
    assert all(answer.supported and not answer.code for answer in device.assess_model(model).operations)
    message = device_pb2.GetSupportedOperationsRequest(model=null.model(model))
    assert list(null.call(null.device.GetSupportedOperations, message).supported) == [False] * operations


@pytest.mark.contract("PM-16")
def test_support_for_an_invalid_model_is_an_error(wire: WireDevice) -> None:
    message = device_pb2.GetSupportedOperationsRequest(model=wire.model(without_outputs(addition_model())))
    with pytest.raises(HalError) as caught:
        wire.call(wire.device.GetSupportedOperations, message)
    assert caught.value.status == INVALID


@pytest.mark.contract("PM-18")
def test_the_same_model_can_be_prepared_twice(wire: WireDevice, prepare: Prepare) -> None:
    outcomes = [prepare(wire, addition_model(), Arguments()) for _ in range(2)]
    first, second = (events[-1].notified.prepared_model for events, _ in outcomes)
    assert first != second
    for outcome in outcomes:
        assert_prepared(wire, outcome)


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
