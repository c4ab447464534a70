"""Descriptions of convolutions, pools and pads: layers that slide over images."""

from __future__ import annotations

from typing import Any

from nnhal_mlip.flow.files.kernel_draft import KernelDraft, LayerDraft
from nnhal_mlip.flow.files.layers import (
    Conv2DAttributes,
    GlobalPoolAttributes,
    PadAttributes,
    PoolAttributes,
    UpsamplingAttributes,
)
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.operators import Operator, image_axes

_NO_PADDING = (0, 0, 0, 0)
_STATISTICS = ("gamma", "beta", "mean", "var")


def convolution(draft: KernelDraft) -> LayerDraft:
    """Describe a convolution, transposed or not, with a pad before it, and behind it a bias and a normalisation."""
    node = draft.main
    layouts = node.text("data_layout"), node.text("kernel_layout")
    if layouts != ("NHWC", "OHWI"):
        draft.refuse(f"layouts {' and '.join(layouts)}", "NHWC and OHWI")
    draft.only(draft.after, Operator.BIAS_ADD, Operator.ADD, Operator.BATCH_NORM)
    weights = draft.shape(node.inputs[1])
    kernel = draft.constant(node.inputs[1], weights, 0)
    own: dict[str, Any] = {
        "strides": node.integers("strides"),
        "padding": _sum(_pads(draft, node.text("data_layout")), node.integers("padding")),
        "dilation": node.integers("dilation"),
        "groups": node.integer("groups"),
        "channels": weights[0],
        "kernel_size": weights[1:3],
        "kernel_layout": "OHWI",
        "kernel_const_name": kernel.name,
        "kernel_const": kernel,
    }
    count = 1
    for each in draft.after:
        if each.operator == Operator.BATCH_NORM:
            own |= _batch_norm(draft, each, count, weights[0])
            count += len(_STATISTICS)
        elif count > 1:
            draft.refuse(f"'{each.name}' ({each.operator}) behind a bias or a batch normalisation", "at most one bias")
        else:
            if each.operator == Operator.BIAS_ADD and each.integer("axis") not in (3, -1):
                draft.refuse(f"a bias along axis {each.integer('axis')}", "one along the channels, axis 3")
            bias = draft.constant(draft.bias(each), (1, 1, 1, weights[0]), 1)
            own |= {"bias_const_name": bias.name, "bias_layout": "---O", "bias_const": bias}
            count += 1
    return LayerDraft(Conv2DAttributes, own, (draft.data,), count, "NHWC", "NHWC")


def _batch_norm(draft: KernelDraft, node: FlowNode, first: int, channels: int) -> dict[str, Any]:
    """Return the attributes of a batch normalisation, whose constants have numbers from ``first``."""
    if node.integer("axis") not in (3, -1):
        draft.refuse(f"a batch normalisation along axis {node.integer('axis')}", "one along the channels, axis 3")
    if first > 2:
        draft.refuse(f"'{node.name}' ({node.operator}) behind a batch normalisation", "at most one")
    own: dict[str, Any] = {"axis": 3, "epsilon": node.real("epsilon"), "center": True, "scale": True}
    for number, (word, value) in enumerate(zip(_STATISTICS, node.inputs[1:], strict=True), first):
        constant = draft.constant(value, (channels,), number)
        own[f"{word}_const_name"] = constant.name
        own[f"{word}_layout"] = "-O"
        own[f"{word}_const"] = constant.model_copy(update={"min": None, "max": None})
    return own


def pool(draft: KernelDraft) -> LayerDraft:
    """Describe a pool with a pad before it.

    What the pad adds is data: an average counts it, and a maximum compares it. The upstream form says so of averages
    only, and only of all padding alike; for the rest there is ``zero_padding`` in the extension.
    """
    node = draft.main
    draft.only(draft.after)
    average = node.operator == Operator.AVG_POOL2D
    layout, padding = node.text("layout"), node.integers("padding")
    zeros = _pads(draft, layout)
    counted = average and bool(node.integer("count_include_pad"))
    if average and padding == _NO_PADDING and any(zeros):
        counted = True
    own: dict[str, Any] = {
        "pool_size": node.integers("pool_size"),
        "strides": node.integers("strides"),
        "dilation": node.integers("dilation"),
        "padding": _sum(zeros, padding),
        "ceil_mode": bool(node.integer("ceil_mode")),
        "layout": layout,
        "kernel_layout": "HW",
        "kernel_layout_shape": node.integers("pool_size"),
    }
    if average:
        own["count_include_pad"] = counted
    extension = {"zero_padding": zeros} if any(zeros) and not counted else {}
    return LayerDraft(PoolAttributes, own, (draft.data,), 0, layout, layout, extension=extension)


def global_pool(draft: KernelDraft) -> LayerDraft:
    """Describe a pool over height and width."""
    node = draft.main
    draft.only((*draft.before, *draft.after))
    layout = node.text("layout")
    shape = draft.shape(draft.data)
    own = {"layout": layout, "kernel_layout": "HW", "kernel_layout_shape": [shape[axis] for axis in image_axes(layout)]}
    return LayerDraft(GlobalPoolAttributes, own, (draft.data,), 0, layout, layout)


def upsampling(draft: KernelDraft) -> LayerDraft:
    """Describe images of which each pixel is there several times."""
    node = draft.main
    draft.only((*draft.before, *draft.after))
    layout = node.text("layout")
    own = {"scale_h": node.integer("scale_h"), "scale_w": node.integer("scale_w"), "layout": layout}
    return LayerDraft(UpsamplingAttributes, own, (draft.data,), 0, layout, layout)


def pad(draft: KernelDraft) -> LayerDraft:
    node = draft.main
    draft.only((*draft.before, *draft.after))
    if node.text("pad_mode") != "constant":
        draft.refuse(f"pad mode {node.text('pad_mode')}", "constant")
    own = {"pad_width": node.integers("pad_width"), "pad_value": node.real("pad_value")}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(PadAttributes, own, (draft.data,), 0, *layouts)


def _pads(draft: KernelDraft, layout: str) -> tuple[int, ...]:
    """Return what the pads before the main node add: top, left, bottom, right."""
    draft.only(draft.before, Operator.PAD)
    total = _NO_PADDING
    height, width = image_axes(layout)
    for node in draft.before:
        widths = node.integers("pad_width")
        around = tuple(widths[2 * axis + end] for end in (0, 1) for axis in (height, width))
        if node.text("pad_mode") != "constant" or node.real("pad_value") != 0:
            got = f"pad '{node.name}' of mode {node.text('pad_mode')} with value {node.real('pad_value'):g}"
            draft.refuse(got, "one of zeros")
        if sum(around) != sum(widths):
            draft.refuse(f"pad '{node.name}' with pad_width {list(widths)}", "one of height and width only")
        total = _sum(total, around)
    return total


def _sum(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, int, int, int]:
    top, left, bottom, right = (a + b for a, b in zip(one, other, strict=True))
    return top, left, bottom, right
