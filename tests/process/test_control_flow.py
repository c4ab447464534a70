"""The rows of the contract about loops and branches, as a device process shows them."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, open_pool
from nnhal.operations.operand_types import F32
from nnhal.remote import RemoteDevice
from nnhal.types import (
    DataLocation,
    ErrorStatus,
    ExecutionPreference,
    Model,
    Operand,
    OperationType,
    OutputShape,
    Request,
    RequestArgument,
)
from nnhal.types.layout import Dimensions
from nnhal_conformance.forms import count_request, counting
from nnhal_service.partition import Candidate
from nnhal_service.partition.assign import best_devices
from nnhal_service.partition.support import CPU
from tests.support.refusals import refusal
from tests.support.subgraphs import B8, INT32, Program


@pytest.mark.slow
@pytest.mark.contract("CF-13")
def test_the_default_timeout_of_a_loop_is_two_seconds(device: RemoteDevice) -> None:
    prepared = device.prepare_model(counting())
    refusal(
        lambda: prepared.execute(count_request(-1).request()),
        ErrorStatus.MISSED_DEADLINE_TRANSIENT,
        "the loop took more than 2000000000 ns",
    )


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
