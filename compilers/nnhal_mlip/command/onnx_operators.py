"""ONNX's operators in a flow graph: those that TVM has one operator for, and the HAL none or another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import Attribute, SourceNode
from nnhal_mlip.flow.graph.operators import Operator

_STATISTICS = ("scale", "bias", "mean", "variance")


@dataclass(frozen=True, slots=True)
class OnnxOperator:
    """A node of the user's whose computed inputs are floats of one type and of known shapes."""

    builder: FlowGraphBuilder
    inputs: Sequence[str | Array | None]
    """The value of each input, or the elements of a constant; None if it is left out."""
    attributes: Mapping[str, Any]
    sources: tuple[SourceNode, ...]
    label: str
    """The user's name of the result."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        return self.builder.values[self.value(0)].shape

    def value(self, index: int) -> str:
        """Return the value of an input. Raises TypeError if it is constant."""
        given = self.inputs[index]
        if not isinstance(given, str):
            raise TypeError(f"{self.label}: input {index} is constant")
        return given

    def constant(self, index: int) -> Array | None:
        """Return the elements of an input; None if it is computed or left out."""
        given = self.inputs[index] if index < len(self.inputs) else None
        return None if isinstance(given, str) else given

    def is_computed(self, index: int) -> bool:
        return index < len(self.inputs) and isinstance(self.inputs[index], str)

    def axes(self) -> tuple[int, ...]:
        """Return the axes that an attribute or the second input names, in order and counted from the front."""
        given = self.constant(1)
        named = self.attributes.get("axes", ()) if given is None else given.reshape(-1).tolist()
        return tuple(sorted(int(axis) % len(self.shape) for axis in named))

    def added_constant(self, what: str, array: Array) -> str:
        """Add a constant to the graph; return its value."""
        return self.builder.constant(f"{self.label}/{what}", np.ascontiguousarray(array))

    def add(
        self, operator: Operator, *inputs: str, attributes: Mapping[str, Attribute] | None = None, name: str = ""
    ) -> str:
        """Add a node to the graph. Its inputs are the first one's value, unless there are others."""
        return self.builder.add(operator, inputs or [self.value(0)], attributes, self.sources, name or self.label)


def _table(operator: Operator, **defaults: float) -> Callable[[OnnxOperator], str]:
    def convert(node: OnnxOperator) -> str:
        parameters = {name: float(node.attributes.get(name, default)) for name, default in defaults.items()}
        return node.add(operator, attributes=parameters)

    return convert


def average_pool(node: OnnxOperator) -> str | None:
    """Convert a pool whose padding counts; the HAL has the others."""
    given = node.attributes
    unclear = given.get("auto_pad", "NOTSET") != "NOTSET" or given.get("ceil_mode", 0)
    if len(node.shape) != 4 or not given.get("count_include_pad", 0) or unclear:
        return None
    attributes: dict[str, Attribute] = {
        "pool_size": tuple(given["kernel_shape"]),
        "strides": tuple(given.get("strides", (1, 1))),
        "dilation": tuple(given.get("dilations", (1, 1))),
        "padding": tuple(given.get("pads", (0, 0, 0, 0))),
        "layout": "NCHW",
        "ceil_mode": False,
        "count_include_pad": True,
    }
    return node.add(Operator.AVG_POOL2D, attributes=attributes)


def batch_normalization(node: OnnxOperator) -> str | None:
    """Convert a normalization with the mean and variance that were learnt."""
    given = node.attributes
    arrays = [array for index in range(1, 5) if (array := node.constant(index)) is not None]
    unusual = given.get("training_mode", 0) or not given.get("spatial", 1)
    if unusual or len(arrays) < len(_STATISTICS) or len(node.shape) < 2:
        return None
    constants = map(node.added_constant, _STATISTICS, arrays)
    attributes: dict[str, Attribute] = {"axis": 1, "epsilon": float(given.get("epsilon", 1e-5))}
    return node.add(Operator.BATCH_NORM, node.value(0), *constants, attributes=attributes)


def clip(node: OnnxOperator) -> str | None:
    """Convert a range with constant ends, of which either may be missing."""
    if node.is_computed(1) or node.is_computed(2):
        return None
    given = node.constant(1), node.constant(2)
    low, high = (
        float(node.attributes.get(name, missing)) if end is None else float(end.item())
        for end, name, missing in zip(given, ("min", "max"), (-inf, inf), strict=True)
    )
    return node.add(Operator.CLIP, attributes={"a_min": low, "a_max": high})


def flatten(node: OnnxOperator) -> str:
    """Convert to two axes: those before an axis, and the others."""
    axis = node.attributes.get("axis", 1)
    if axis == 1 and len(node.shape) > 1:
        return node.add(Operator.BATCH_FLATTEN)
    axis = axis + len(node.shape) if axis < 0 else axis
    return node.add(Operator.RESHAPE, attributes={"newshape": (prod(node.shape[:axis]), prod(node.shape[axis:]))})


def gelu(node: OnnxOperator) -> str:
    """Convert the Gaussian error linear unit, or its approximation."""
    return node.add(Operator.GELU_TANH if node.attributes.get("approximate", "none") == "tanh" else Operator.GELU)


def gemm(node: OnnxOperator) -> str:
    """Convert alpha * A * B + beta * C, with A or B transposed if asked: what is no single operation of the HAL."""
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    rows, weights = node.value(0), node.constant(1)
    if node.attributes.get("transA", 0):
        rows = _turned(node, rows)
    as_stored = bool(node.attributes.get("transB", 0))
    if weights is None:
        right = node.value(1) if as_stored else _turned(node, node.value(1))
    else:
        right = node.added_constant("weights", _times(weights if as_stored else weights.T, alpha))
        alpha = 1.0
    product = _scaled(node, node.add(Operator.DENSE, rows, right, name=f"{node.label}/dense"), alpha)
    if beta == 0 or len(node.inputs) < 3 or node.inputs[2] is None:
        return product
    summand, units = node.constant(2), node.builder.values[product].shape[1]
    if summand is None:
        return node.add(Operator.ADD, product, _scaled(node, node.value(2), beta))
    summand = _times(summand, beta)
    if summand.size not in (1, units) or (summand.ndim == 2 and summand.shape[0] != 1):
        return node.add(Operator.ADD, product, node.added_constant("summand", summand))
    bias = node.added_constant("bias", np.broadcast_to(summand.reshape(-1), units))
    return node.add(Operator.BIAS_ADD, product, bias, attributes={"axis": 1})


def _turned(node: OnnxOperator, matrix: str) -> str:
    return node.add(Operator.TRANSPOSE, matrix, attributes={"axes": (1, 0)}, name=f"{node.label}/transpose")


def _scaled(node: OnnxOperator, value: str, factor: float) -> str:
    """Multiply a value, unless the factor is 1."""
    if factor == 1:
        return value
    number = node.added_constant("factor", np.array(factor, node.builder.values[value].element_type))
    return node.add(Operator.MULTIPLY, value, number, name=f"{node.label}/multiply")


def _times(values: Array, factor: float) -> Array:
    return values if factor == 1 else (values.astype(np.float32) * np.float32(factor)).astype(values.dtype)


def matmul(node: OnnxOperator) -> str | None:
    """Convert a product with a constant matrix on the right, of rows along any number of axes."""
    right = node.constant(1)
    if right is None or right.ndim != 2 or len(node.shape) < 2:
        return None
    return node.add(Operator.DENSE, node.value(0), node.added_constant("weights", right.T))


def reduce_mean(node: OnnxOperator) -> str | None:
    """Convert a mean along axes; along all unless they are named."""
    axes = node.axes()
    if node.is_computed(1) or (not axes and node.attributes.get("noop_with_empty_axes", 0)):
        return None
    keep = bool(node.attributes.get("keepdims", 1))
    return node.add(Operator.MEAN, attributes={"axis": axes or tuple(range(len(node.shape))), "keepdims": keep})


def squeeze(node: OnnxOperator) -> str | None:
    """Drop axes of length 1: those that are named, or all."""
    axes = node.axes() or tuple(axis for axis, length in enumerate(node.shape) if length == 1)
    if node.is_computed(1) or not axes:
        return None
    return node.add(Operator.SQUEEZE, attributes={"axis": axes})


def total(node: OnnxOperator) -> str | None:
    """Add up any number of tensors, from the left."""
    operands = [each for each in node.inputs if isinstance(each, str)]
    if not 1 < len(operands) == len(node.inputs):
        return None
    first, *others, last = operands
    for other in others:
        first = node.add(Operator.ADD, first, other, name=f"{node.label}/add")
    return node.add(Operator.ADD, first, last)


CONVERTERS: Mapping[str, Callable[[OnnxOperator], str | None]] = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Clip": clip,
    "Erf": _table(Operator.ERF),
    "Flatten": flatten,
    "Gelu": gelu,
    "Gemm": gemm,
    "HardSigmoid": _table(Operator.HARD_SIGMOID, alpha=0.2, beta=0.5),
    "MatMul": matmul,
    "ReduceMean": reduce_mean,
    "Squeeze": squeeze,
    "Sum": total,
}
"""A converter returns the value of the node's result; None if the host has to compute the node."""

APART = frozenset({"BatchNormalization", "Clip", "Flatten", "MatMul", "ReduceMean", "Squeeze"})
"""Operators that sometimes become one operation of the HAL, which stands for another operator of the flow."""
