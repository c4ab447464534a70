"""Biases as sums."""

from __future__ import annotations

from dataclasses import replace

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator

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
