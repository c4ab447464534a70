"""Operators with a layout of their own: which of them change to the accelerator's, and back to the source's."""

from __future__ import annotations

from collections.abc import Mapping

from nnhal.layouts.layout_graph import Converts, Keeps
from nnhal.types.orders import Order, normal
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import Operator, permutation
from nnhal_mlip.flow.limits import BEYOND, MAX_BATCH, PUBLIC
from nnhal_mlip.flow.passes.layout_behaviours import Attributes, NodeBehaviour

DATA = "NHWC"
KERNEL = "OHWI"
SOURCE_LAYOUT = "source_layout"
"""The attribute of a converted operator that has the layout of its data in the user's model."""
SOURCE_KERNEL_LAYOUT = "source_kernel_layout"
"""The same for the weights of a convolution."""

_LAYOUT_ATTRIBUTES = {
    Operator.AVG_POOL2D: "layout",
    Operator.CONV2D: "data_layout",
    Operator.CONV2D_TRANSPOSE: "data_layout",
    Operator.GLOBAL_AVG_POOL2D: "layout",
    Operator.GLOBAL_MAX_POOL2D: "layout",
    Operator.MAX_POOL2D: "layout",
}
_CONVOLUTIONS = (Operator.CONV2D, Operator.CONV2D_TRANSPOSE)


def converting(graph: FlowGraph, node: FlowNode, beyond_public: bool) -> NodeBehaviour | None:
    """Return how an operator on images behaves when the accelerator's layouts are wanted, None for any other."""
    if node.operator not in _LAYOUT_ATTRIBUTES:
        return None
    layouts = _layouts(node)
    data, *_ = layouts
    batch = graph.shape(node.inputs[0])[data.index("N")]
    wanted = (DATA, KERNEL)[: len(layouts)]
    if not _may_convert(Operator(node.operator), batch, beyond_public) or layouts == wanted:
        return NodeBehaviour(Keeps(known=True))
    marks = dict(zip((SOURCE_LAYOUT, SOURCE_KERNEL_LAYOUT), layouts, strict=False))
    return _conversion(node, layouts, wanted, marks)


def converting_back(node: FlowNode) -> NodeBehaviour | None:
    """Return how an operator that was converted behaves on the host, None for any other."""
    if SOURCE_LAYOUT not in node.attributes:
        return None
    layouts = _layouts(node)
    marks = (SOURCE_LAYOUT, SOURCE_KERNEL_LAYOUT)[: len(layouts)]
    wanted = tuple(node.text(mark) for mark in marks)
    return _conversion(node, layouts, wanted, {})


def kernel_layouts(graph: FlowGraph) -> Mapping[str, str]:
    """Return the layout of each value that convolutions read as weights."""
    return {node.inputs[1]: node.text("kernel_layout") for node in graph.nodes if node.operator in _CONVOLUTIONS}


def _layouts(node: FlowNode) -> tuple[str, ...]:
    data = node.text(_LAYOUT_ATTRIBUTES[Operator(node.operator)])
    return (data, node.text("kernel_layout")) if node.operator in _CONVOLUTIONS else (data,)


def _may_convert(operator: Operator, batch: int, beyond_public: bool) -> bool:
    if operator in (Operator.CONV2D, Operator.MAX_POOL2D):
        return 1 <= batch <= MAX_BATCH
    if operator in (Operator.CONV2D_TRANSPOSE, Operator.GLOBAL_MAX_POOL2D):
        return beyond_public and 1 <= batch <= MAX_BATCH
    return batch <= (BEYOND if beyond_public else PUBLIC).operators[operator].batch


def _conversion(node: FlowNode, layouts: tuple[str, ...], wanted: tuple[str, ...], marks: Attributes) -> NodeBehaviour:
    orders: dict[int, Order] = {}
    for index, (have, want) in enumerate(zip(layouts, wanted, strict=True)):
        order = normal(permutation(have, want))
        if order is not None:
            orders[index] = order
    names = (_LAYOUT_ATTRIBUTES[Operator(node.operator)], "kernel_layout")
    attributes = {**dict(zip(names, wanted, strict=False)), **marks}
    outputs = {0: orders[0]} if 0 in orders else {}
    return NodeBehaviour(Converts(orders, outputs), lambda _: attributes)
