"""Layouts of flow graphs: the accelerator's for what it may take, the source's for what stays on the host.

The accelerator has images in NHWC and the weights of convolutions in OHWI. The rules are those of TVM 0.19 for this
target; ``nnhal.layouts`` has the decision about values, which is the same for models of the HAL.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnhal.arrays import Array
from nnhal.layouts.layout_graph import Keeps, Reorders
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator, permutation
from nnhal_mlip.flow.passes.layout_behaviours import NodeBehaviour, following
from nnhal_mlip.flow.passes.layout_conversion import converting, converting_back
from nnhal_mlip.flow.passes.relayout import relayout


def convert_layouts(graph: FlowGraph, beyond_public: bool = False) -> FlowGraph:
    """Return a graph with images in NHWC and weights in OHWI as far as the accelerator may take them.

    Convolutions and max pools convert up to a batch of 8, average pools with a batch of 1 or an unknown one. With
    ``beyond_public`` average pools do so up to a batch of 8, and global max pools too. Element-wise operators,
    concatenations, paddings and those that name axes follow the layout that arrives: that of the first input with a
    known one, but publicly of two operands with equally many axes that of the left one, known or not. Layout
    transforms stand in front of all others and of the graph's outputs, one for each value and layout; constants are
    transposed at once. A ``bias_add`` becomes an ``add``, with a constant of (1, 1, 1, C) after a convolution in NHWC
    and of rank 1 after a dense layer.

    Operators that convert keep the layouts that they had as attributes, for ``restore_layouts``.
    """
    added = biases_added(graph)
    behaviours = [
        converting(added, node, beyond_public) or following(added, node, leftmost=not beyond_public)
        for node in added.nodes
    ]
    return relayout(added, behaviours)


def restore_layouts(graph: FlowGraph, taken: Collection[str]) -> FlowGraph:
    """Return a graph in which the operators of the host have the layouts of the user's model again.

    ``taken`` has the outputs of the nodes that the accelerator has. They stay as they are, with the names and the types
    of all values that they read or compute. Of the layout transforms on the host those remain that are still needed.
    """
    behaviours = [NodeBehaviour(Keeps()) if node.output in taken else _on_host(graph, node) for node in graph.nodes]
    unchanged = {number for number, node in enumerate(graph.nodes) if node.output in taken}
    return relayout(graph, behaviours, unchanged)


def _on_host(graph: FlowGraph, node: FlowNode) -> NodeBehaviour:
    if not node.sources and node.operator == Operator.LAYOUT_TRANSFORM:
        return NodeBehaviour(Reorders(permutation(node.text("src_layout"), node.text("dst_layout"))))
    if not node.sources and node.operator == Operator.TRANSPOSE:
        return NodeBehaviour(Reorders(node.integers("axes")))
    return converting_back(node) or following(graph, node)


_IMAGES = 4
"""The rank of images."""


def biases_added(graph: FlowGraph) -> FlowGraph:
    """Return a graph in which each ``bias_add`` is an ``add`` of a bias that broadcasts.

    The bias of images has their rank, any other as many axes as there are from the bias' axis on. A bias that is no
    constant is reshaped in the graph.
    """
    if all(node.operator != Operator.BIAS_ADD for node in graph.nodes):
        return graph
    values, constants = dict(graph.values), dict(graph.constants)
    nodes: list[FlowNode] = []
    for node in graph.nodes:
        if node.operator == Operator.BIAS_ADD:
            nodes.extend(_added(graph, node, values, constants))
        else:
            nodes.append(node)
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs.values())
    dropped = {node.inputs[1] for node in graph.nodes if node.operator == Operator.BIAS_ADD} - read - set(graph.inputs)
    return replace(
        graph,
        nodes=tuple(nodes),
        values={name: value for name, value in values.items() if name not in dropped},
        constants={name: array for name, array in constants.items() if name not in dropped},
    )


def _added(
    graph: FlowGraph, node: FlowNode, values: dict[str, FlowValue], constants: dict[str, Array]
) -> list[FlowNode]:
    data, bias = node.inputs
    rank = graph.values[data].rank
    axis = node.integer("axis") % rank
    before = axis if rank == _IMAGES else 0
    value = graph.values[bias]
    shape = (1,) * before + value.shape + (1,) * (rank - axis - 1)
    if shape == value.shape:
        return [replace(node, operator=Operator.ADD, attributes={})]
    wide = _unused(f"{bias}_{'x'.join(map(str, shape))}", values)
    values[wide] = value._replace(shape=shape, axis=before if len(value.scales) > 1 else 0)
    added = replace(node, operator=Operator.ADD, inputs=(data, wide), attributes={})
    if bias in constants:
        constants[wide] = constants[bias].reshape(shape)
        return [added]
    return [FlowNode(Operator.RESHAPE, (bias,), (wide,), {"newshape": shape}), added]


def _unused(name: str, values: dict[str, FlowValue]) -> str:
    unique, number = name, 1
    while unique in values:
        unique, number = f"{name}_{number}", number + 1
    return unique
