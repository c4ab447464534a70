from __future__ import annotations

import numpy as np

from nnhal.operations.operand_types import F32, I32, Q8A
from nnhal.types import Operand, OperationType
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_devices.ethos_u.performance import nanoseconds, operation_ns, whole_islands
from tests.support.agreement import like
from tests.support.ethos_u import needs_networks, network
from tests.support.models import Recipe
from tests.support.npu import SAME

SYSTEM = system_for("u55-128")


def test_a_cycle_takes_as_long_as_the_clock_says() -> None:
    assert nanoseconds(1_000, SYSTEM) == 2_000


def test_every_supported_operation_costs_something() -> None:
    recipe = Recipe()
    image = recipe.input(Q8A, (1, 16, 16, 8), 0.5, 128)
    inputs = [
        image,
        recipe.constant(Q8A, np.zeros((8, 3, 3, 8)), 0.25, 128),
        recipe.constant(I32, np.zeros(8), 0.125),
        *recipe.integers(SAME, 1, 1, 0),
    ]
    convolved = recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), 0.5, 128))
    clamped = recipe.operation(OperationType.RELU, [convolved], Operand(Q8A, (), 0.5, 128))
    shape = recipe.constant(I32, [1, 2048])
    flat = recipe.operation(OperationType.RESHAPE, [clamped, shape], Operand(Q8A, (), 0.5, 128))
    costs = operation_ns(recipe.build(flat), SYSTEM)
    # 16 * 16 * 8 * 3 * 3 * 8 multiply-adds, 128 in a cycle of 2 ns.
    assert costs[0] > 2 * 1152
    assert costs[1:] == [1, 1]
    assert whole_islands(recipe.build(flat)) == []


def test_operations_that_are_not_supported_do_not_matter() -> None:
    recipe = Recipe()
    floats = recipe.input(F32, (1, 16, 16, 8))
    quantised = recipe.operation(OperationType.QUANTIZE, [floats], like(Q8A))
    clamped = recipe.operation(OperationType.RELU, [quantised], like(Q8A))
    result = recipe.operation(OperationType.DEQUANTIZE, [clamped], Operand(F32))
    _, cost, _ = operation_ns(recipe.build(result), SYSTEM)
    assert cost > 1_000


@needs_networks
def test_a_faster_accelerator_takes_less_time() -> None:
    model = network("ds_cnn_kws")
    assert sum(operation_ns(model, system_for("u55-256"))) < sum(operation_ns(model, SYSTEM))
