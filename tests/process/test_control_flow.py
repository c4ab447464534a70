"""The rows of the contract about loops and branches, as a device process shows them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.operations._types import F32
from nnhal.remote import RemoteDevice
from nnhal.types import (
    NO_DEADLINE,
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    ExecutionPreference,
    Model,
    Operand,
    OperationType,
    OutputShape,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions
from nnhal_service.partition import Candidate
from nnhal_service.partition.assign import best_devices
from nnhal_service.partition.support import CPU
from tests.support.entry_points import ENTRY_POINTS, PLAIN, EntryPoint, Target, synchronously
from tests.support.subgraphs import B8, I32, INT32, Program
from tests.support.wire import WireDevice

MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
ENDLESS = -1
"""A number that a counter from 0 upwards never reaches within a test."""
ROUNDS = 20


@pytest.fixture(params=ENTRY_POINTS)
def entry(request: pytest.FixtureRequest) -> EntryPoint:
    return ENTRY_POINTS[request.param]


@pytest.fixture(scope="module")
def counter(cpu_ref: Endpoint) -> Iterator[Target]:
    with WireDevice(cpu_ref) as wire:
        yield Target(wire, wire.prepare(counting_loop()))


def counting_loop() -> Model:
    """Return ``i = 0; while i != n: i = i + 1``."""
    program = Program()
    main, condition, body = (program.graph() for _ in range(3))
    compared = [condition.input(), condition.input()]
    condition.returns(condition.operation(OperationType.NOT_EQUAL, compared, Operand(B8, (1,))))
    i, _ = body.input(), body.input()
    body.returns(body.add(i, body.constant([1])))
    references = [main.reference(condition), main.reference(body)]
    main.returns(
        main.operation(OperationType.WHILE, [*references, main.constant([0]), main.input()], Operand(I32, (1,)))
    )
    return program.resolved().model


def count(target: Target, entry: EntryPoint, rounds: int, config: ExecutionConfig) -> int:
    memory = create_ashmem(8)
    pool = open_pool(memory, writable=True)
    pool.write(0, np.array([rounds], np.int32).view(np.uint8))
    arguments = [RequestArgument(DataLocation(0, offset, 4)) for offset in (0, 4)]
    entry(target, Request(tuple(arguments[:1]), tuple(arguments[1:]), (memory,)), config, NO_DEADLINE)
    return int(pool.read(4, 4).view(np.int32)[0])


@pytest.mark.contract("CF-12", "EX-15")
def test_a_loop_that_does_not_end_misses_its_deadline(counter: Target, entry: EntryPoint) -> None:
    with pytest.raises(HalError, match="the loop took more than 1000000 ns") as caught:
        count(counter, entry, ENDLESS, ExecutionConfig(loop_timeout_duration_ns=1_000_000))
    assert caught.value.status in MISSED
    assert count(counter, entry, ROUNDS, PLAIN) == ROUNDS


@pytest.mark.contract("CF-13")
def test_a_loop_without_a_given_timeout_gets_the_default_one(counter: Target, entry: EntryPoint) -> None:
    hardly_any, default = (ExecutionConfig(loop_timeout_duration_ns=timeout) for timeout in (1, -1))
    with pytest.raises(HalError) as caught:
        count(counter, entry, ROUNDS, hardly_any)
    assert caught.value.status in MISSED
    assert count(counter, entry, ROUNDS, default) == ROUNDS


@pytest.mark.slow
@pytest.mark.contract("CF-13")
def test_the_default_timeout_is_two_seconds(counter: Target) -> None:
    with pytest.raises(HalError, match="the loop took more than 2000000000 ns") as caught:
        count(counter, synchronously, ENDLESS, PLAIN)
    assert caught.value.status in MISSED


def branch_of_any_size(dimensions: Dimensions) -> Model:
    """Return ``condition ? concatenation of x and x : relu(x)``, whose size is unknown before the execution."""
    program = Program()
    main, doubled, positive = (program.graph() for _ in range(3))
    x = doubled.input(dimensions, F32)
    twice = [x, x, doubled.constant(0, INT32)]
    doubled.returns(doubled.operation(OperationType.CONCATENATION, twice, Operand(F32, dimensions)))
    y = positive.input(dimensions, F32)
    positive.returns(positive.operation(OperationType.RELU, [y], Operand(F32, dimensions)))
    inputs = [main.input(code=B8), main.reference(doubled), main.reference(positive), main.input(dimensions, F32)]
    main.returns(main.operation(OperationType.IF, inputs, Operand(F32, dimensions)))
    return program.resolved().model


@pytest.mark.contract("CF-09")
@pytest.mark.parametrize("dimensions", [(), (0,)])
def test_control_flow_of_unknown_size_goes_to_the_cpu_in_the_framework(
    cpu_acc: Endpoint, device: RemoteDevice, dimensions: Dimensions
) -> None:
    model = branch_of_any_size(dimensions)
    with RemoteDevice(cpu_acc, "test") as accelerator:
        assert accelerator.supported_operations(model) == [False]
        candidates = [candidate(remote, model) for remote in (accelerator, device)]
    assert best_devices(model, [()], candidates, (), CPU, ExecutionPreference.FAST_SINGLE_ANSWER) == ("cpu_ref",)

    memory = create_ashmem(64)
    pool = open_pool(memory, writable=True)
    pool.write(4, np.array([-1, 2], np.float32).view(np.uint8))
    condition = RequestArgument(DataLocation(0, 0, 1))
    value = RequestArgument(DataLocation(0, 4, 8), (2,))
    request = Request((condition, value), (RequestArgument(DataLocation(0, 16, 48)),), (memory,))
    prepared = device.prepare_model(model)
    for truth, expected in ((1, [-1, 2, -1, 2]), (0, [0, 2])):
        pool.write(0, np.array([truth], np.uint8))
        assert prepared.execute(request).output_shapes == (OutputShape((len(expected),)),)
        assert pool.read(16, 4 * len(expected)).view(np.float32).tolist() == expected


def candidate(device: RemoteDevice, model: Model) -> Candidate:
    """Return a device as a candidate for a model's operations."""
    refusals = {
        index: support.code
        for index, support in enumerate(device.assess_model(model).operations)
        if not support.supported
    }
    return Candidate(device.describe().name, device.capabilities(), refusals)
