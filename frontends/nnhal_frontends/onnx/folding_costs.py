"""Cost of computing a node on import, known before it is computed.

The sizes of its results come from ONNX's shape inference of the one node with the values of its inputs, never from
what the file declares. Work is counted in elements that are read and written. Operators that the reference evaluator
computes element by element in Python, or whose work is not linear in their sizes, count as if each element of the
results depended on each combination of elements of the inputs, which only small tensors can afford.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import infer_node_outputs

from nnhal.arrays import Array
from nnhal_frontends.onnx.graph import OnnxNode

_MOST_VALUES = 1024
"""The longest input whose values shape inference gets. Shapes, lengths and paddings are short."""
_STRING_BYTES = 64
"""The bytes that a string is assumed to need."""
_STEP = 256
"""The cost of a step in Python, in elements of a vectorised operation."""
_NUMPY_OPERATORS = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
    Cast CastLike Ceil Clip Concat Constant ConstantOfShape Cos Cosh CumSum Div Equal Exp Expand EyeLike Flatten
    Floor Gather Greater GreaterOrEqual Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mod Mul Neg
    NonZero Not OneHot Or Pad Pow QuantizeLinear Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Shape Sign Sin Sinh Size
    Slice Softmax Split Sqrt Squeeze Sub Sum Tan Tanh Tile TopK Transpose Trilu Unsqueeze Where Xor
"""
_VECTORISED = frozenset(_NUMPY_OPERATORS.split())
"""Operators that are computed by numpy as a whole."""
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_SHRINKING = frozenset({"Compress", "NonZero", "Unique"})
"""Operators whose results have as many elements as their inputs' values decide: indices or some of the elements."""


class FoldingCost(NamedTuple):
    """The cost of computing a node."""

    result_bytes: int
    work: int


def cost_of(node: OnnxNode, proto: onnx.NodeProto, opset: int, inputs: Mapping[str, Array]) -> FoldingCost | None:
    """Return the cost of a node over constants; None if the sizes of its results are unknown."""
    given = sum(values.size for values in inputs.values())
    if node.op_type in _SHRINKING:
        most = max((values.size * (values.ndim + 3) for values in inputs.values()), default=0)
        return FoldingCost(8 * most, given + most if node.op_type in _VECTORISED else _STEP * (given + most))
    results = _results(proto, opset, inputs)
    if results is None:
        return None
    made = sum(elements for elements, _ in results)
    size = sum(elements * width for elements, width in results)
    if node.op_type in _VECTORISED:
        return FoldingCost(size, given + made)
    if any(width == _STRING_BYTES for _, width in results):
        return None  # strings may grow without bound
    each = [max(1, values.size) for values in inputs.values()]
    if node.op_type in _PRODUCTS:
        longest = max((length for values in inputs.values() for length in values.shape[-2:]), default=1)
        return FoldingCost(size, given + made * longest)
    return FoldingCost(size, _STEP * prod(each) * max(1, made))


def _results(proto: onnx.NodeProto, opset: int, inputs: Mapping[str, Array]) -> list[tuple[int, int]] | None:
    """Return the elements of each result, and the bytes of one of them; None if they are unknown."""
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset)
        types = {name: _type(values) for name, values in inputs.items()}
        values = {
            name: numpy_helper.from_array(values, name)
            for name, values in inputs.items()
            if values.size <= _MOST_VALUES and values.dtype.kind in "iuf"
        }
        imports = [helper.make_opsetid("", opset)]
        inferred = infer_node_outputs(schema, proto, types, values, opset_imports=imports)
    except Exception:  # of any type: a node that does not exist, or contradicts itself
        return None
    found = [_size(inferred.get(name)) for name in proto.output if name]
    return None if None in found else [size for size in found if size is not None]


def _type(values: Array) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)


def _size(kind: onnx.TypeProto | None) -> tuple[int, int] | None:
    if kind is None or kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in dims):
        return None
    element_type = np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))
    width = _STRING_BYTES if element_type.kind == "O" else element_type.itemsize
    return prod(dim.dim_value for dim in dims), width
