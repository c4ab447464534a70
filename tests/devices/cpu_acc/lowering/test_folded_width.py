"""8-bit convolutions of few channels read several pixels as one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
import pytest

from nnhal.operations.operand_types import I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import ChannelQuant, Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.cpu_acc.proto import model_of
from nnhal_devices.cpu_acc.session import session_options
from tests.support.agreement import assert_agrees, random
from tests.support.models import Recipe

_SAME, _VALID = 1, 2
_RELU6 = 3
_SIZE = 16
_MADE = 6


@dataclass(frozen=True, slots=True)
class Shape:
    """A convolution, and whether its pixels are folded."""

    channels: int
    window: int
    stride: int
    is_folded: bool
    padding: int = _SAME
    columns: int = _SIZE


_SHAPES = [
    Shape(3, 3, 2, True),
    Shape(3, 7, 2, True),
    Shape(1, 5, 1, True),
    Shape(2, 3, 2, True),
    Shape(6, 3, 1, True),
    Shape(3, 3, 1, False),
    Shape(4, 3, 2, False),
    Shape(3, 3, 2, False, columns=18),
    Shape(3, 3, 2, False, padding=_VALID),
]


def _model(shape: Shape, code: OperandType, weights: OperandType) -> ResolvedModel:
    recipe = Recipe()
    zero_point = 0 if code == Q8AS else 121
    given = recipe.input(code, (2, _SIZE, shape.columns, shape.channels), 0.05, zero_point)
    dimensions = (_MADE, shape.window, shape.window, shape.channels)
    values = random(weights, dimensions)
    if weights == Q8C:
        channels = ChannelQuant(tuple(0.001 * (1 + made) for made in range(_MADE)), 0)
        kernel = recipe.constant(Q8C, values, channels=channels)
        bias = recipe.constant(I32, random(I32, (_MADE,)))
    else:
        kernel = recipe.constant(weights, values, 0.002, 117)
        bias = recipe.constant(I32, random(I32, (_MADE,)), 0.05 * 0.002)
    inputs = [given, kernel, bias, *recipe.integers(shape.padding, shape.stride, shape.stride, _RELU6)]
    result = recipe.operation(OperationType.CONV_2D, inputs, Operand(code, (), 0.04, zero_point))
    return recipe.build(result)


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
@pytest.mark.parametrize(("code", "weights"), [(Q8A, Q8A), (Q8A, Q8C), (Q8AS, Q8C)])
def test_a_folded_convolution_agrees(shape: Shape, code: OperandType, weights: OperandType) -> None:
    model = _model(shape, code, weights)
    types = [node.type for node in lower(model, propagate_dimensions(model)).nodes]
    assert ("Reshape" in types) is shape.is_folded
    assert_agrees(model, random(code, (2, _SIZE, shape.columns, shape.channels)))


def test_onnx_runtime_reads_folded_pixels_where_they_lie(tmp_path: Path) -> None:
    model = _model(_SHAPES[0], Q8A, Q8C)
    options = session_options(threads=1)
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    proto = model_of(lower(model, propagate_dimensions(model)))
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    nodes = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    assert "QLinearConv" in nodes
    assert not {"Transpose", "DequantizeLinear"} & set(nodes)
