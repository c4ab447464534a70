"""The modelled time of operations, for the framework's partitioner, and whether a subgraph is worth its hand-over.

Each layer is priced by the formulas of the profile, split over as many tiles as are best for it, without compiling: so
this takes milliseconds. Weights load while the layer before runs, so a layer takes as long as the longer of its work
and its traffic with DDR.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nnhal.resolved import ResolvedModel
from nnhal.types.layout import Dimensions
from nnhal_mlip.flow.flow_partition import FlowKernel, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.partition.reverting import Worth
from nnhal_mlip.flow.patterns.question import WEIGHTED
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.program.program import TILE_COUNTS, LayerSplit, TaskKind, TensorType
from nnhal_mlip.program.sizes import TYPE_BYTES
from nnhal_mlip.support import PartitionedHalModel, partition_model
from nnhal_mlip.timing.cycles import ROW_PASSES, LayerShape, bytes_cycles, layer_cycles
from nnhal_mlip.timing.profile import TimingProfile

_NOTHING = 1.0
"""Nanoseconds of an operation that is part of another one. To the framework, 0 says that it is not supported."""
_POOLS = {Operator.MAX_POOL2D: TaskKind.MAX_POOL, Operator.AVG_POOL2D: TaskKind.AVERAGE_POOL}
_GLOBAL_POOLS = {Operator.GLOBAL_MAX_POOL2D: TaskKind.MAX_POOL, Operator.GLOBAL_AVG_POOL2D: TaskKind.AVERAGE_POOL}


def operation_ns(model: ResolvedModel, options: MlipOptions) -> list[float]:
    """Return the time of each operation of main: a layer's at its first operation, and the least for all others."""
    found = [_NOTHING] * len(model.model.main.operations)
    parts: PartitionedHalModel = partition_model(model, options.public)
    for subgraph in parts.partition.subgraphs:
        for kernel in subgraph.kernels:
            numbers = [source.number for node in kernel.nodes for source in node.sources]
            if numbers:
                cycles = kernel_cycles(parts.partition.graph, subgraph, kernel, options)
                found[min(numbers)] += options.profile.nanoseconds(cycles)
    return found


def kernel_cycles(graph: FlowGraph, subgraph: FlowSubgraph, kernel: FlowKernel, options: MlipOptions) -> int:
    """Return the modelled cycles of a layer of a subgraph, with the transfers of its weights and of the ports."""
    shape = layer_shape(graph, kernel)
    work = min(
        layer_cycles(shape, split, tiles, options.profile)
        for split in LayerSplit
        for tiles in TILE_COUNTS
        if tiles <= options.tiles
    )
    moved = _moved_bytes(graph, subgraph, kernel, shape.type, options.pinned)
    return max(work, *(bytes_cycles(count, options.profile) for count in moved), 0)


def _moved_bytes(
    graph: FlowGraph, subgraph: FlowSubgraph, kernel: FlowKernel, element: TensorType, pinned: bool
) -> list[int]:
    """The bytes of the transfers between DDR and the tiles for a layer: of weights, and of the subgraph's ports."""
    made = {name for node in kernel.nodes for name in node.outputs}
    read = {name for node in kernel.nodes for name in node.inputs} - made
    return [
        prod(graph.shape(name)) * TYPE_BYTES[element]
        for name in sorted(read | made)
        if (name in graph.constants and not pinned) or name in subgraph.inputs or name in subgraph.outputs
    ]


def layer_shape(graph: FlowGraph, kernel: FlowKernel) -> LayerShape:
    node = next(each for each in kernel.nodes if each.operator == kernel.operator)
    element = TensorType.INT8 if graph.values[kernel.output].scales else TensorType.FP16
    batch, height, width, channels = _image(graph.shape(kernel.output))
    match node.operator:
        case Operator.CONV2D:
            depthwise = node.integer("groups") > 1 and graph.shape(node.inputs[1])[-1] == 1
            kind = TaskKind.DEPTHWISE if depthwise else TaskKind.CONVOLUTION
            reduction = prod(graph.shape(node.inputs[1])[1:])
            return LayerShape(kind, element, batch, height, width, channels, reduction)
        case Operator.DENSE:
            units, size = graph.shape(node.inputs[1])
            rows = prod(graph.shape(node.output)) // units
            return LayerShape(TaskKind.CONVOLUTION, element, rows, 1, 1, units, size)
        case Operator.BATCH_MATMUL:
            inner = graph.shape(node.inputs[0])[-2 if node.integer("transpose_a") else -1]
            return LayerShape(TaskKind.MATMUL, element, 1, batch * height * width, 1, channels, inner)
        case Operator.SOFTMAX:
            return LayerShape(TaskKind.SOFTMAX, element, batch, height, width, channels, ROW_PASSES)
        case Operator.LAYER_NORM:
            return LayerShape(TaskKind.NORMALIZATION, element, batch, height, width, channels, ROW_PASSES)
        case Operator.ADD:
            return LayerShape(TaskKind.SUM, element, batch, height, width, channels, inputs=2)
    kind, reduction = _pool(graph, node)
    return LayerShape(kind, element, batch, height, width, channels, reduction)


def _pool(graph: FlowGraph, node: FlowNode) -> tuple[TaskKind, int]:
    if node.operator in _POOLS:
        return _POOLS[Operator(node.operator)], prod(node.integers("pool_size"))
    if node.operator in _GLOBAL_POOLS:
        _, height, width, _ = graph.shape(node.inputs[0])
        return _GLOBAL_POOLS[Operator(node.operator)], height * width
    return TaskKind.COPY, 1


def _image(shape: Dimensions) -> Sequence[int]:
    """Batch, height, width and channels of a tensor; missing axes are 1, behind the first."""
    if len(shape) < 2:
        return (1, 1, 1, *shape) if shape else (1, 1, 1, 1)
    return (shape[0], *(1,) * (4 - len(shape)), *shape[1:])


_MATRIX = (Operator.CONV2D, Operator.DENSE)


def worth_by_cost(options: MlipOptions) -> Worth:
    """Return what decides by the modelled times which subgraphs stay on the accelerator.

    Those with a convolution or a dense layer stay whatever they cost.
    """

    def worth(graph: FlowGraph, subgraph: FlowSubgraph) -> str | None:
        if any(kernel.operator in _MATRIX for kernel in subgraph.kernels):
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


def node_host_ns(graph: FlowGraph, node: FlowNode, profile: TimingProfile) -> float:
    products = 0.0
    if node.operator in WEIGHTED:
        weights = graph.shape(node.inputs[1])
        channels = node.integer("channels") if "channels" in node.attributes else weights[0]
        made = node.inputs[0] if node.operator == Operator.CONV2D_TRANSPOSE else node.output
        products = prod(graph.shape(made)) * prod(weights) / channels
    moved = _bytes(graph, node) / profile.host_bytes_per_ns
    return max(products / profile.host_products_per_ns, moved) + profile.host_operator_ns


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
