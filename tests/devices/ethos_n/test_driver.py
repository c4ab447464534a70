from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.support import Supported
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_devices.backend import MemoryKind
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions
from nnhal_devices.ethos_n.driver import EthosN
from nnhal_devices.ethos_n.performance import ROOFLINE, inference_ns
from tests.support.agreement import QUANTIZATION, random, single
from tests.support.models import Recipe, memory_of, run_on
from tests.support.npu import SAME, TYPES, VALID, convolution, is_taken

OPTIONS = DriverOptions()


def only_in_the_reference(code: OperandType) -> ResolvedModel:
    """A pooling with paddings as large as its window, which cpu_acc declines."""
    model = single(OperationType.MAX_POOL_2D, code, [(1, 7, 7, 3)], [0, 2, 0, 2, 2, 2, 2, 2, 0])
    (answer,) = CpuAcc(OPTIONS).supported_operations(model)
    assert not isinstance(answer, Supported)
    return model


@pytest.mark.parametrize("code", TYPES)
def test_results_are_those_of_the_reference(code: OperandType) -> None:
    for model in (convolution(code, (8, 3, 3, 3), [SAME, 2, 2, 1], (1, 7, 7, 3)), only_in_the_reference(code)):
        assert is_taken(model)
        image = random(code, (1, 7, 7, 3))
        (got,), (expected,) = run_on(EthosN(OPTIONS), model, image), run_on(CpuRef(), model, image)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got.astype(np.int32), expected.astype(np.int32), 0, 1)


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        (OperationType.AVERAGE_POOL_2D, [SAME, 1, 1, 3, 3, 0]),
        (OperationType.AVERAGE_POOL_2D, [VALID, 1, 1, 7, 6, 0]),
        (OperationType.MAX_POOL_2D, [SAME, 2, 2, 3, 3, 3]),
        (OperationType.MEAN, [[1, 2], 0]),
        (OperationType.RELU, []),
        (OperationType.RESIZE_BILINEAR, [14, 12]),
        (OperationType.TRANSPOSE, [[0, 3, 1, 2]]),
    ],
)
def test_operations_of_one_tensor(code: OperandType, operation: OperationType, parameters: list[Any]) -> None:
    model, image = single(operation, code, [(1, 6, 7, 5)], parameters), random(code, (1, 6, 7, 5))
    assert is_taken(model)
    (got,), (expected,) = run_on(EthosN(OPTIONS), model, image), run_on(CpuRef(), model, image)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.astype(np.int32), expected.astype(np.int32), 0, 1)


@pytest.mark.parametrize("code", TYPES)
def test_a_product_with_a_constant_for_each_channel(code: OperandType) -> None:
    recipe, zero_point = Recipe(), QUANTIZATION[code][1]
    given = recipe.input(code, (1, 1, 2, 3), 0.5, zero_point)
    factors = recipe.constant(code, np.array([2, 4, 6]) + zero_point, 0.5, zero_point)
    result = Operand(code, (), 1.0, zero_point)
    model = recipe.build(recipe.operation(OperationType.MUL, [given, factors, *recipe.integers(0)], result))
    assert is_taken(model)
    image = (np.array([8, 8, 8, -8, 6, 4]).reshape(1, 1, 2, 3) + zero_point).astype(ELEMENT_TYPES[code])
    (got,) = run_on(EthosN(OPTIONS), model, image)
    assert (got.astype(np.int32) - zero_point).tolist() == [[[[4, 8, 12], [-4, 6, 6]]]]


def test_the_time_of_a_run_is_modelled() -> None:
    model = convolution(Q8A, (4, 3, 3, 2), [SAME, 1, 1, 0], (1, 64, 64, 2))
    bound = EthosN(OPTIONS).prepare(model, PrepareOptions())
    output = Argument(np.zeros(64 * 64 * 4, np.uint8), (1, 64, 64, 4))
    outcome = bound.bind([memory_of(random(Q8A, (1, 64, 64, 2)))], [output]).run(Control())
    assert outcome.time_on_device_ns == inference_ns(model)
    assert 2_000 < inference_ns(model) < 10_000
    (told,) = bound.operation_times(Control()).times
    assert (told.name, told.operations) == ("operation 0 (CONV_2D)", (0,))
    assert round(told.duration) == inference_ns(model)


def test_speed_is_told_for_8_bit_types_only() -> None:
    entries = {entry.type: entry.info for entry in EthosN.capabilities.operand_performance}
    assert set(entries) == {*TYPES, OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL}
    assert entries[Q8A].exec_time == REFERENCE.default_macs_per_ns / ROOFLINE.macs_per_ns[Q8A]
    assert EthosN.capabilities.relaxed_float32_to_float16_tensor.exec_time == pytest.approx(3.4028235e38)


def test_results_lie_in_hardware_buffers_that_somebody_else_allocates() -> None:
    (factory,) = EthosN.backend.tensor_handles
    assert factory.imports == factory.exports == EthosN.memory.imports == {MemoryKind.HARDWARE_BUFFER_BLOB}
    assert (factory.maps, factory.alignment, factory.fallback_import_memory_required) == (True, 64, True)
