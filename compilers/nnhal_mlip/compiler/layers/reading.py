"""From the files of a subgraph to layers."""

from __future__ import annotations

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.convolutions import add_convolution, add_dense, add_transposed_convolution
from nnhal_mlip.compiler.layers.draft import NetworkDraft, extents_of
from nnhal_mlip.compiler.layers.moving import (
    add_activation,
    add_join,
    add_matmul,
    add_rows,
    add_slice,
    add_sum,
    add_transpose,
    add_upsampling,
    add_view,
    transposition,
)
from nnhal_mlip.compiler.layers.pads import add_pads
from nnhal_mlip.compiler.layers.pools import add_global_pool, add_mean, add_pool
from nnhal_mlip.compiler.layers.tile_layers import KernelNote, LayerValue, TileNetwork
from nnhal_mlip.flow.files.layers import (
    ACTIVATION,
    CONV2D_TRANSPOSE,
    ConcatAttributes,
    Conv2DAttributes,
    FullyConnectedAttributes,
    GlobalPoolAttributes,
    LayerNormAttributes,
    LayoutTransformAttributes,
    MatmulAttributes,
    MeanAttributes,
    PadAttributes,
    PoolAttributes,
    SliceAttributes,
    SoftmaxAttributes,
    SumAttributes,
    TransposeAttributes,
    UpsamplingAttributes,
)
from nnhal_mlip.flow.files.nodes_file import InputNode, KernelNode
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.flow.limits import MAX_BATCH
from nnhal_mlip.program.program import TaskKind
from nnhal_mlip.program.tables import TableKind, TaskTable


def read_layers(files: SubgraphFiles) -> TileNetwork:
    """Return the layers of a subgraph.

    Raises:
        MlipCompileError: a layer is not one that tiles can compute. The message has the user's name of it.
    """
    nodes = files.nodes
    if nodes.batch_size > MAX_BATCH:
        place = ", ".join(node.user_name for node in nodes.inputs)
        raise MlipCompileError(f"{place}: a batch of {nodes.batch_size}, expected at most {MAX_BATCH}")
    draft = NetworkDraft(files)
    names: list[str] = []
    for node in nodes.nodes:
        if isinstance(node, InputNode):
            names.append(_add_value(draft, node, node.attrs.data_layout))
            continue
        draft.notes.append(KernelNote(node.name, node.layer, node.attrs.nnhal.user_names if node.attrs.nnhal else ()))
        for edge in node.inputs:
            if edge.output:
                raise MlipCompileError(f"{node.user_name}: reads result {edge.output} of a kernel, expected 0")
        operands = [names[edge.node] for edge in node.inputs]
        output = _add_value(draft, node, node.attrs.out_layout)
        _add(draft, node, operands, output)
        names.append(output)
    inputs = tuple(names[number] for number in nodes.arg_nodes)
    return draft.network(inputs, tuple(names[head.node] for head in nodes.heads))


def _add(draft: NetworkDraft, node: KernelNode, operands: list[str], output: str) -> None:
    attrs = node.attrs
    if isinstance(attrs, SumAttributes):
        return add_sum(draft, node, attrs, operands, output)
    if isinstance(attrs, ConcatAttributes):
        return add_join(draft, node, attrs, operands, output)
    if isinstance(attrs, Conv2DAttributes):
        if attrs.layer_name == CONV2D_TRANSPOSE:
            return add_transposed_convolution(draft, node, attrs, operands, output)
        return add_convolution(draft, node, attrs, operands, output)
    if isinstance(attrs, FullyConnectedAttributes):
        return add_dense(draft, node, attrs, operands, output)
    if isinstance(attrs, MatmulAttributes):
        return add_matmul(draft, attrs, operands, output)
    if len(operands) != 1:
        raise MlipCompileError(f"{node.user_name}: {len(operands)} operands, expected one")
    data = operands[0]
    match attrs:
        case PoolAttributes():
            add_pool(draft, node, attrs, data, output)
        case GlobalPoolAttributes():
            add_global_pool(draft, node, attrs, data, output)
        case MeanAttributes():
            add_mean(draft, node, attrs, data, output)
        case PadAttributes():
            add_pads(draft, node, attrs, data, output)
        case LayoutTransformAttributes():
            axes = transposition(attrs.src_layout, attrs.dst_layout, node.user_name)
            add_transpose(draft, node, axes, data, output)
        case SoftmaxAttributes():
            add_rows(draft, TaskKind.SOFTMAX, attrs.axis, data, output)
        case LayerNormAttributes():
            table = TaskTable(TableKind.RSQRT, beta=attrs.epsilon)
            add_rows(draft, TaskKind.NORMALIZATION, attrs.axis, data, output, table)
        case SliceAttributes():
            add_slice(draft, attrs, data, output)
        case UpsamplingAttributes():
            add_upsampling(draft, attrs, data, output)
        case TransposeAttributes():
            add_transpose(draft, node, attrs.axes, data, output)
        case _ if attrs.layer_name == ACTIVATION:
            add_activation(draft, node, data, output)
        case _:
            add_view(draft, node, data, output)
    return None


def _add_value(draft: NetworkDraft, node: InputNode | KernelNode, layout: str) -> str:
    extension = node.attrs.nnhal
    shape = node.attrs.shape[0]
    return draft.add_value(
        LayerValue(
            draft.fresh(extension.value if extension else node.name),
            shape,
            extents_of(shape, node.user_name),
            layout,
            _scale(extension.scales if extension else None, node.user_name),
        )
    )


def _scale(scales: tuple[float, ...] | None, place: str) -> float | None:
    if not scales:
        return None
    if len(scales) != 1:
        raise MlipCompileError(f"{place}: {len(scales)} scales of a value, expected one")
    return scales[0]
