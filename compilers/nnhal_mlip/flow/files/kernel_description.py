"""From a kernel of a partition to its node in the nodes file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isinf
from typing import Any

from nnhal_mlip.flow.files import layers
from nnhal_mlip.flow.files.extension import KernelExtension, scales_of
from nnhal_mlip.flow.files.image_layers import convolution, global_pool, pad, pool, upsampling
from nnhal_mlip.flow.files.kernel_draft import KernelDraft, LayerDraft
from nnhal_mlip.flow.files.nodes_file import KernelNode, NodeEdge
from nnhal_mlip.flow.files.plain_layers import (
    concatenation,
    fully_connected,
    layout_transform,
    matmul,
    mean,
    padded,
    part,
    rows,
    total,
    transposition,
    without_attributes,
)
from nnhal_mlip.flow.graph.flow_graph import table_of
from nnhal_mlip.flow.graph.operators import TABLES, Operator

LAYERS: Mapping[str, tuple[str, Callable[[KernelDraft], LayerDraft]]] = {
    Operator.ADD: (layers.SUM, total),
    Operator.AVG_POOL2D: (layers.AVERAGE_POOL, pool),
    Operator.BATCH_FLATTEN: (layers.BATCH_FLATTEN, without_attributes),
    Operator.BATCH_MATMUL: (layers.MATMUL, matmul),
    Operator.CLIP: (layers.ACTIVATION, without_attributes),
    Operator.CONCATENATE: (layers.CONCAT, concatenation),
    Operator.CONV2D: (layers.CONV2D, convolution),
    Operator.CONV2D_TRANSPOSE: (layers.CONV2D_TRANSPOSE, convolution),
    Operator.DENSE: (layers.FULLY_CONNECTED, fully_connected),
    Operator.GLOBAL_AVG_POOL2D: (layers.GLOBAL_AVERAGE_POOL, global_pool),
    Operator.GLOBAL_MAX_POOL2D: (layers.GLOBAL_MAX_POOL, global_pool),
    Operator.LAYER_NORM: (layers.LAYER_NORM, rows),
    Operator.LAYOUT_TRANSFORM: (layers.LAYOUT_TRANSFORM, layout_transform),
    Operator.MAX_POOL2D: (layers.MAX_POOL, pool),
    Operator.MEAN: (layers.MEAN, mean),
    Operator.MULTIPLY: (layers.PRODUCT, total),
    Operator.PAD: (layers.PAD, pad),
    Operator.RELU: (layers.ACTIVATION, without_attributes),
    Operator.RESHAPE: (layers.RESHAPE, without_attributes),
    Operator.SOFTMAX: (layers.SOFTMAX, rows),
    Operator.SQUEEZE: (layers.SQUEEZE, without_attributes),
    Operator.STRIDED_SLICE: (layers.SLICE, part),
    Operator.TRANSPOSE: (layers.TRANSPOSE, transposition),
    Operator.UPSAMPLING: (layers.UPSAMPLING, upsampling),
    **dict.fromkeys(TABLES, (layers.ACTIVATION, without_attributes)),
}
"""The name of the layer in the nodes file, and what describes it, by the operator that gives a layer its name."""


def kernel_node(draft: KernelDraft, number: int, symbol: str, ids: Mapping[str, int]) -> KernelNode:
    """Return the node of a kernel, the one with a number among those of its subgraph.

    ``ids`` are the nodes of the values before it. Raises FlowFilesError if the upstream form and its extension cannot
    hold the kernel.
    """
    if draft.kernel.operator not in LAYERS:
        draft.refuse(f"operator {draft.kernel.operator}", f"one of {', '.join(sorted(LAYERS))}")
    name, describe = LAYERS[draft.kernel.operator]
    layer = describe(draft)
    for value in layer.data:
        if value not in ids:
            draft.refuse(f"operand '{value}'", "an input of the subgraph or the result of a layer before it")
    return KernelNode(
        op="tvm_op",
        name=draft.name,
        inputs=tuple(NodeEdge(ids[value], 0) for value in layer.data),
        attrs=layer.attributes(**_attributes(draft, name, layer, number, symbol)),
    )


def _attributes(draft: KernelDraft, name: str, layer: LayerDraft, number: int, symbol: str) -> dict[str, Any]:
    shape, value = draft.shape(draft.kernel.output), draft.graph.values[draft.kernel.output]
    layouts = [layout for layout in dict.fromkeys((layer.data_layout, layer.out_layout)) if layout]
    suffix = f"_{'2'.join(layouts)}" if layouts and layer.named_layouts else ""
    activation, clip = _activation(*draft.range)
    if draft.table:
        activation = draft.table.operator
    shapes = _written([draft.shape(value) for value in layer.data], layer.padded_rank)
    return {
        "layer_name": name,
        "composite_name": draft.kernel.composite or None,
        "func_node_name": symbol,
        "func_name": f"n{number}_{name}{suffix}",
        "data_layout": layer.data_layout,
        "data_layout_shape": shapes[0],
        "data_layout_shapes": shapes if len(shapes) > 1 else (),
        "out_layout": layer.out_layout,
        "out_layout_shape": _written([shape], layer.padded_rank)[0],
        "from_tuple_idx": (-1,) * len(layer.data),
        "activation_type": activation,
        "shape": (shape,),
        "dtype": (value.element_type.name,),
        "num_inputs": len(layer.data) + layer.constants,
        "num_outputs": 1,
        "mrvl_nodes_idx": (number + 1,),
        **layer.own,
        "nnhal": KernelExtension(
            id=f"{symbol}.{number}",
            value=draft.kernel.output,
            user_names=draft.kernel.user_names,
            kinds=_kinds(draft),
            beyond_public=draft.kernel.beyond_public,
            clip=clip,
            table=table_of(draft.table)[1:] if draft.table and draft.table.attributes else None,
            **scales_of(draft.place, value),
            **layer.extension,
        ),
    }


def _written(shapes: Sequence[tuple[int, ...]], rank: int | None) -> tuple[tuple[int, ...], ...]:
    return tuple(shapes) if rank is None else tuple(padded(shape, rank) for shape in shapes)


def _activation(low: float, high: float) -> tuple[str | None, tuple[float | None, float | None] | None]:
    """Return the word for a range, and its ends if the word does not say them."""
    if (low, high) == (-inf, inf):
        return None, None
    if (low, high) == (0, inf):
        return "relu", None
    return "clip", (None if isinf(low) else low, None if isinf(high) else high)


def _kinds(draft: KernelDraft) -> tuple[str, ...]:
    sources = [source for node in draft.kernel.nodes for source in node.sources]
    return tuple(next(source.kind for source in sources if source.name == name) for name in draft.kernel.user_names)
