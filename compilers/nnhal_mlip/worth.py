"""Whether a subgraph is worth its hand-over: its modelled time on the accelerator against that on the host.

All figures are those of the profile, which are guesses.
"""

from __future__ import annotations

from math import prod

from nnhal_mlip.costs import kernel_cycles, layer_shape
from nnhal_mlip.flow.flow_partition import FlowKernel, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.partition.reverting import Worth
from nnhal_mlip.options import MlipOptions

_MATRIX = (Operator.CONV2D, Operator.DENSE)


def worth_by_cost(options: MlipOptions, every: bool = False) -> Worth:
    """Return what decides by the modelled times which subgraphs stay on the accelerator.

    Those with a convolution or a dense layer stay whatever they cost, unless ``every`` subgraph is to be weighed.
    """

    def worth(graph: FlowGraph, subgraph: FlowSubgraph) -> str | None:
        if not every and any(kernel.operator in _MATRIX for kernel in subgraph.kernels):
            return None
        here, there = accelerator_ns(graph, subgraph, options), host_ns(graph, subgraph, options)
        if here <= there:
            return None
        times = f"{here / 1000:.1f} µs on the accelerator, {options.profile.firmware_ns / 1000:.1f} µs of them"
        return f"modelled, it takes {times} to start it, and {there / 1000:.1f} µs on the host"

    return worth


def accelerator_ns(graph: FlowGraph, subgraph: FlowSubgraph, options: MlipOptions) -> float:
    """Return the modelled time of a subgraph on the accelerator, with its transfers and the firmware's start."""
    cycles = sum(kernel_cycles(graph, subgraph, kernel, options) for kernel in subgraph.kernels)
    return options.profile.nanoseconds(cycles) + options.profile.firmware_ns


def host_ns(graph: FlowGraph, subgraph: FlowSubgraph, options: MlipOptions) -> float:
    """Return the modelled time of a subgraph's operators on the host, without those that a pass has added."""
    return sum(_kernel_ns(graph, kernel, options) for kernel in subgraph.kernels)


def _kernel_ns(graph: FlowGraph, kernel: FlowKernel, options: MlipOptions) -> float:
    nodes = [node for node in kernel.nodes if node.sources]
    if not nodes:
        return 0.0
    profile = options.profile
    products = layer_shape(graph, kernel).macs / profile.host_products_per_ns
    moved = sum(_bytes(graph, node) for node in nodes) / profile.host_bytes_per_ns
    return max(products, moved) + len(nodes) * profile.host_operator_ns


def _bytes(graph: FlowGraph, node: FlowNode) -> int:
    values = [graph.values[name] for name in (*node.inputs, *node.outputs)]
    return sum(prod(value.shape) * value.element_type.itemsize for value in values)
