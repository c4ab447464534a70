"""Layouts of flow graphs: the accelerator's for what it may take, the source's for what stays on the host.

The accelerator has images in NHWC and the weights of convolutions in OHWI. The rules are those of TVM 0.19 for this
target; ``nnhal.layouts`` has the decision about values, which is the same for models of the HAL.
"""

from __future__ import annotations

from collections.abc import Collection

from nnhal.layouts.layout_graph import Keeps, Reorders
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.layout_words import permutation
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.passes.biases import biases_added
from nnhal_mlip.flow.passes.layout_behaviours import NodeBehaviour, following
from nnhal_mlip.flow.passes.layout_conversion import converting, converting_back
from nnhal_mlip.flow.passes.relayout import relayout


def convert_layouts(graph: FlowGraph, beyond_public: bool = False) -> FlowGraph:
    """Return a graph with images in NHWC and weights in OHWI as far as the accelerator may take them.

    Convolutions and max pools convert up to a batch of 8, average pools with a batch of 1 or an unknown one. With
    ``beyond_public`` average pools do so up to a batch of 8, and global max pools too. Element-wise operators,
    concatenations, paddings and those that name axes follow the layout that arrives: that of the first input with a
    known one. Layout transforms stand in front of all others and of the graph's outputs, one for each value and layout;
    constants are transposed at once. A ``bias_add`` becomes an ``add``, with a constant of (1, 1, 1, C) after a
    convolution in NHWC and of rank 1 after a dense layer.

    Operators that convert keep the layouts that they had as attributes, for ``restore_layouts``.
    """
    added = biases_added(graph)
    behaviours = [converting(added, node, beyond_public) or following(added, node) for node in added.nodes]
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
