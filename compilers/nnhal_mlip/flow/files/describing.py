"""From a subgraph of a partition to its nodes file and its constants file."""

from __future__ import annotations

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.constants_file import ConstantPool
from nnhal_mlip.flow.files.extension import OutputExtension, SubgraphExtension, ValueExtension, scales_of
from nnhal_mlip.flow.files.kernel_description import kernel_node
from nnhal_mlip.flow.files.kernel_draft import KernelDraft
from nnhal_mlip.flow.files.nodes_file import (
    InputAttributes,
    InputNode,
    KernelNode,
    NodeEdge,
    NodesFile,
    SubgraphAttributes,
    batch_of,
)
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.files.value_layouts import value_layouts
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph


def describe(partition: FlowPartition, subgraph: FlowSubgraph) -> SubgraphFiles:
    """Return the files of a subgraph of a partition.

    Raises FlowFilesError, with the user's name of the layer, if the files cannot hold it.
    """
    graph, pool = partition.graph, ConstantPool(partition.graph)
    layouts = value_layouts(graph)
    inputs = [_input(graph, subgraph, number, name, layouts[name]) for number, name in enumerate(subgraph.inputs)]
    if not inputs or not subgraph.kernels:
        got = f"{len(inputs)} inputs and {len(subgraph.kernels)} layers"
        raise FlowFilesError(f"subgraph {subgraph.symbol}: got {got}, expected at least one of each")
    ids = {name: number for number, name in enumerate(subgraph.inputs)}
    kernels: list[KernelNode] = []
    for number, kernel in enumerate(subgraph.kernels):
        draft = KernelDraft(graph, kernel, f"tvmgen_mrvl_main_{number}", pool, layouts)
        kernels.append(kernel_node(draft, number, subgraph.symbol, ids))
        ids[kernel.output] = len(inputs) + number
    for name in subgraph.outputs:
        if name not in ids:
            raise FlowFilesError(f"subgraph {subgraph.symbol}: got output '{name}', expected the result of a layer")
    nodes: tuple[InputNode | KernelNode, ...] = (*inputs, *kernels)
    file = NodesFile(
        symbol=subgraph.symbol,
        batch_size=batch_of(inputs[-1].attrs.shape[0]),
        num_subgraph_inputs=len(inputs),
        num_subgraph_outputs=len(subgraph.outputs),
        arg_nodes=tuple(range(len(inputs))),
        heads=tuple(NodeEdge(ids[name], 0) for name in subgraph.outputs),
        attrs=SubgraphAttributes(
            shape=("list_shape", tuple(node.attrs.shape[0] for node in nodes)),
            dltype=("list_str", tuple(node.attrs.dtype[0] for node in nodes)),
        ),
        nodes=nodes,
        nnhal=SubgraphExtension(
            schema=1, outputs=tuple(_output(graph, name, layouts[name]) for name in subgraph.outputs)
        ),
    )
    files = SubgraphFiles(file, pool.file)
    files.check()
    return files


def _input(graph: FlowGraph, subgraph: FlowSubgraph, number: int, name: str, layout: str) -> InputNode:
    value = graph.values[name]
    if 0 in value.shape:
        got = f"shape {list(value.shape)}, in which 0 is unknown"
        raise FlowFilesError(f"input '{name}' of subgraph {subgraph.symbol}: got {got}, expected known extents")
    return InputNode(
        op="input",
        name=f"mrvl_{subgraph.number}_i{number}",
        input_id=number,
        inputs=(),
        attrs=InputAttributes(
            layer_name="input",
            shape=(value.shape,),
            dtype=(value.element_type.name,),
            data_layout=layout,
            nnhal=ValueExtension(value=name, **scales_of(f"input '{name}'", value)),
        ),
    )


def _output(graph: FlowGraph, name: str, layout: str) -> OutputExtension:
    names = tuple(user for user, value in graph.outputs.items() if value == name)
    return OutputExtension(value=name, names=names, layout=layout, **scales_of(f"output '{name}'", graph.values[name]))
