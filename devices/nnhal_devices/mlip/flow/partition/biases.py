"""Biases of one number as one for each channel, as the accelerator has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal_devices.mlip.flow.graph.flow_graph import FlowGraph
from nnhal_devices.mlip.flow.graph.operators import Operator
from nnhal_devices.mlip.flow.patterns.question import WEIGHTED


def spread_biases(graph: FlowGraph) -> FlowGraph:
    """Return a graph in which no convolution or dense layer has one number, right of it, added to all channels."""
    values, constants = dict(graph.values), dict(graph.constants)
    layers = {node.output for node in graph.nodes if node.operator in WEIGHTED}
    nodes = []
    for node in graph.nodes:
        if node.operator == Operator.ADD and node.inputs[0] in layers and node.inputs[1] in graph.constants:
            data, bias = node.inputs
            array, channels = constants[bias], graph.shape(data)[-1]
            if array.size == 1 != channels and graph.values[bias].rank <= graph.values[data].rank:
                wide = f"{bias}_for_{node.output}"
                constants[wide] = np.full(channels, array.reshape(-1)[0], array.dtype)
                values[wide] = values[bias]._replace(shape=(channels,), axis=0)
                node = replace(node, inputs=(data, wide))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), values=values, constants=constants)
