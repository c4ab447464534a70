"""Sessions of ONNX Runtime of lowered graphs: speed depends on what it fuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from nnhal.operations.operand_types import F32, I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.cpu_acc.proto import model_of
from nnhal_devices.cpu_acc.session import create_session, session_options
from nnhal_devices.driver import DriverOptions
from nnhal_frontends.onnx import import_onnx
from tests.support.agreement import assert_agrees, random
from tests.support.extended import run_extended
from tests.support.models import Recipe
from tests.support.onnx_models import by_onnxruntime, onnx_model

_SAME, _RELU6 = 1, 3
_SIZE, _CHANNELS = 12, 16


def _bottleneck(code: OperandType) -> ResolvedModel:
    """Three convolutions, the middle one depthwise, whose result is added to their input; then the mean and units."""
    recipe = Recipe()
    plain = Operand(code, (), *{Q8A: (0.05, 128), Q8AS: (0.05, 0)}.get(code, (0.0, 0)))
    clamped = Operand(code, (), *{Q8A: (6 / 255, 0), Q8AS: (6 / 255, -128)}.get(code, (0.0, 0)))
    quantized = plain.scale > 0

    def weights(dimensions: tuple[int, ...], channel_dim: int) -> list[int]:
        units = dimensions[channel_dim]
        if not quantized:
            return [recipe.constant(F32, random(F32, dimensions) / 9), recipe.constant(F32, random(F32, (units,)))]
        channels = ChannelQuant((0.002,) * units, channel_dim)
        bias = random(I32, (units,))
        return [recipe.constant(Q8C, random(Q8C, dimensions), channels=channels), recipe.constant(I32, bias)]

    given = recipe.input(code, (1, _SIZE, _SIZE, _CHANNELS), plain.scale, plain.zero_point)
    wide = recipe.operation(
        OperationType.CONV_2D,
        [given, *weights((32, 1, 1, _CHANNELS), 0), *recipe.integers(_SAME, 1, 1, _RELU6)],
        clamped,
    )
    deep = recipe.operation(
        OperationType.DEPTHWISE_CONV_2D,
        [wide, *weights((1, 3, 3, 32), 3), *recipe.integers(_SAME, 1, 1, 1, _RELU6)],
        clamped,
    )
    narrow = recipe.operation(
        OperationType.CONV_2D, [deep, *weights((_CHANNELS, 1, 1, 32), 0), *recipe.integers(_SAME, 1, 1, 0)], plain
    )
    added = recipe.operation(OperationType.ADD, [given, narrow, *recipe.integers(0)], plain)
    axes = recipe.constant(I32, [1, 2])
    return recipe.build(recipe.operation(OperationType.MEAN, [added, axes, *recipe.integers(0)], plain))


def _optimized(model: ResolvedModel, folder: Path) -> list[str]:
    path = folder / "optimized.onnx"
    options = session_options(threads=1)
    options.optimized_model_filepath = str(path)
    proto = model_of(lower(model, propagate_dimensions(model)))
    onnx.checker.check_model(proto)
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_quantized_networks_stay_in_bytes_from_end_to_end(code: OperandType, tmp_path: Path) -> None:
    nodes = _optimized(_bottleneck(code), tmp_path)
    assert nodes.count("QLinearConv") == 3
    assert {"QLinearAdd", "QLinearGlobalAveragePool"} <= set(nodes)
    assert not {"DequantizeLinear", "QuantizeLinear", "Conv", "Clip"} & set(nodes)


def test_images_are_moved_once_on_the_way_in(tmp_path: Path) -> None:
    recipe = Recipe()
    image = recipe.input(F32, (1, _SIZE, _SIZE, _CHANNELS))
    for seed in range(3):
        weights = recipe.constant(F32, random(F32, (_CHANNELS, 3, 3, _CHANNELS), seed))
        bias = recipe.constant(F32, np.zeros(_CHANNELS))
        inputs = [image, weights, bias, *recipe.integers(_SAME, 1, 1, 1)]
        image = recipe.operation(OperationType.CONV_2D, inputs, Operand(F32))
        image = recipe.operation(
            OperationType.MUL,
            [image, recipe.constant(F32, random(F32, (_CHANNELS,))), *recipe.integers(0)],
            Operand(F32),
        )
    axes = recipe.constant(I32, [1, 2])
    model = recipe.build(recipe.operation(OperationType.MEAN, [image, axes, *recipe.integers(0)], Operand(F32)))
    assert [node.type for node in lower(model, propagate_dimensions(model)).nodes].count("Transpose") == 1
    assert _optimized(model, tmp_path).count("Transpose") <= 1


def test_large_constants_are_read_where_they_lie() -> None:
    """ONNX Runtime has no copy of its own: it sees a later change."""
    recipe = Recipe()
    values = random(F32, (1, 4096))
    inputs = [recipe.input(F32, (1, 4096)), recipe.constant(F32, values), *recipe.integers(0)]
    model = recipe.build(recipe.operation(OperationType.ADD, inputs, Operand(F32)))
    graph = lower(model, propagate_dimensions(model))
    (name,), (given,) = [name for name, array in graph.constants.items() if array.nbytes == values.nbytes], graph.inputs
    graph.constants[name] = changing = values.copy()
    session = create_session(graph, threads=1)
    changing += 1
    (found,) = session.runtime.run(None, {given: np.zeros_like(values)})
    np.testing.assert_array_equal(found, values + 1)


@pytest.mark.parametrize("code", [F32, Q8A, Q8AS])
def test_a_bottleneck_agrees(code: OperandType) -> None:
    model = _bottleneck(code)
    assert_agrees(model, random(code, (1, _SIZE, _SIZE, _CHANNELS)))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_file_that_resizes_named_axes_behind_a_transpose_runs(mode: str) -> None:
    """ONNX Runtime alone refuses it, since it moves the Transpose past the Resize and loses the sizes."""
    nodes = [
        onnx.helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        onnx.helper.make_node("Resize", ["t", "", "", "s"], ["r"], mode=mode, axes=[2, 3]),
        onnx.helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 3, 1]),
    ]
    model = onnx_model(nodes, {"x": [1, 4, 5, 2]}, ["y"], {"s": np.array([3, 7])})
    given = {"x": random(F32, (1, 4, 5, 2))}
    (expected,) = by_onnxruntime(model, given)
    found = run_extended(CpuAcc(DriverOptions()), import_onnx(model, as_one=True), given)
    np.testing.assert_allclose(found["y"], expected, 1e-5, 1e-6)
