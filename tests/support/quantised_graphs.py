"""Float graphs as graphs of signed 8-bit values, as the HAL has them: symmetric, weights by output channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator

_INT8, _INT32 = np.dtype(np.int8), np.dtype(np.int32)
_LARGEST = 127
_MOVING = (
    Operator.MAX_POOL2D,
    Operator.RESHAPE,
    Operator.BATCH_FLATTEN,
    Operator.SQUEEZE,
    Operator.TRANSPOSE,
    Operator.LAYOUT_TRANSFORM,
)
"""Operators whose results have the scale of their data."""

Ranges = Mapping[str, tuple[float, float]]


def folded(graph: FlowGraph) -> FlowGraph:
    """Return a graph with each normalisation behind a convolution as other weights and a bias."""
    normalised = {node.inputs[0]: node for node in graph.nodes if node.operator == Operator.BATCH_NORM}
    constants, values, nodes = dict(graph.constants), dict(graph.values), list[FlowNode]()
    for node in graph.nodes:
        if node.operator == Operator.CONV2D and node.output in normalised:
            gamma, _, _, variance = (graph.constants[name] for name in normalised[node.output].inputs[1:])
            gain = gamma / np.sqrt(variance + normalised[node.output].real("epsilon"))
            weight = node.inputs[1]
            outputs_first = gain.reshape(-1, 1, 1, 1)
            constants[weight] = (graph.constants[weight] * outputs_first).astype(np.float32)
        if node.operator == Operator.BATCH_NORM:
            gamma, beta, mean, variance = (graph.constants[name] for name in node.inputs[1:])
            bias = f"{node.output}_bias"
            constants[bias] = (beta - mean * gamma / np.sqrt(variance + node.real("epsilon"))).astype(np.float32)
            values[bias] = FlowValue(constants[bias].shape, constants[bias].dtype)
            node = replace(
                node,
                operator=Operator.BIAS_ADD,
                inputs=(node.inputs[0], bias),
                attributes={"axis": node.integer("axis")},
            )
        nodes.append(node)
    return FlowGraph(tuple(nodes), graph.inputs, graph.outputs, values, constants)


def quantised(graph: FlowGraph, ranges: Ranges) -> FlowGraph:
    """Return a graph of 8-bit values whose scales come from ranges, by the values' names.

    Values between a layer and its bias or activation have the scale of the layer's result, as those have that a fused
    operation of the HAL becomes. Weights must have their outputs first.
    """
    graph = folded(graph)
    scales = _scales(graph, ranges)
    builder = FlowGraphBuilder()
    names: dict[str, str] = {}
    for name in graph.inputs:
        names[name] = builder.input(name, graph.shape(name), _INT8, (scales[name],))
    for node in graph.nodes:
        data = node.inputs[0]
        for position, name in enumerate(node.inputs):
            if name in graph.constants and name not in names:
                array = graph.constants[name]
                if node.operator == Operator.BIAS_ADD:
                    producer = graph.producers()[data]
                    units = np.array(builder.values[names[producer.inputs[1]]].scales) * scales[producer.inputs[0]]
                    numbers = np.rint(array / units).astype(_INT32)
                    names[name] = builder.constant(name, numbers, tuple(units.tolist()))
                elif position == 1 and node.operator in (Operator.CONV2D, Operator.DENSE):
                    units = np.abs(array).reshape(len(array), -1).max(axis=1) / _LARGEST
                    numbers = np.rint(array / units.reshape(-1, *[1] * (array.ndim - 1))).astype(_INT8)
                    names[name] = builder.constant(name, numbers, tuple(units.astype(np.float32).tolist()))
                else:
                    unit = float(np.abs(array).max()) / _LARGEST
                    names[name] = builder.constant(name, np.rint(array / unit).astype(_INT8), (unit,))
        result = FlowValue(graph.shape(node.output), _INT8, (scales[node.output],))
        names[node.output] = builder.add(
            node.operator,
            [names[name] for name in node.inputs],
            node.attributes,
            node.sources,
            node.output,
            results=[result],
        )
    return builder.build({user: names[value] for user, value in graph.outputs.items()})


def to_int8(values: Array, scale: float) -> Array:
    """Return real numbers as 8-bit numbers of a scale; halves go away from zero."""
    steps = values.astype(np.float64) / scale
    return np.clip(np.trunc(steps + np.copysign(0.5, steps)), -_LARGEST - 1, _LARGEST).astype(np.int8)


def _scales(graph: FlowGraph, ranges: Ranges) -> dict[str, float]:
    found = {name: _scale(ranges, name) for name in graph.inputs}
    consumers = graph.consumers()
    for node in graph.nodes:
        last = node
        while last.operator in (Operator.CONV2D, Operator.DENSE, Operator.BIAS_ADD, Operator.ADD):
            users = consumers.get(last.output, [])
            if len(users) != 1 or users[0].operator not in (Operator.BIAS_ADD, Operator.RELU, Operator.CLIP):
                break
            last = users[0]
        moves = node.operator in _MOVING
        found[node.output] = found[node.inputs[0]] if moves else _scale(ranges, last.output)
    return found


def _scale(ranges: Ranges, name: str) -> float:
    low, high = ranges[name]
    return float(np.float32(max(abs(low), abs(high)) / _LARGEST))
