"""Descriptions of dense layers, sums, concatenations, activations and changes of shape and order."""

from __future__ import annotations

from math import prod
from typing import Any

from nnhal_mlip.flow.files.kernel_draft import KernelDraft, LayerDraft
from nnhal_mlip.flow.files.layers import (
    CommonAttributes,
    ConcatAttributes,
    FullyConnectedAttributes,
    LayerNormAttributes,
    LayoutTransformAttributes,
    MatmulAttributes,
    MeanAttributes,
    SliceAttributes,
    SoftmaxAttributes,
    SumAttributes,
    TransposeAttributes,
)
from nnhal_mlip.flow.graph.operators import Operator

_RANK = 4
"""The rank of the shapes of a sum."""


def fully_connected(draft: KernelDraft) -> LayerDraft:
    """Describe a dense layer with its bias, and before it a transform to NCHW with a flatten."""
    node = draft.main
    draft.only(draft.after, Operator.BIAS_ADD, Operator.ADD)
    weights = draft.shape(node.inputs[1])
    kernel = draft.constant(node.inputs[1], weights, 0)
    own: dict[str, Any] = {
        "units": weights[0],
        "kernel_layout": "OI",
        "kernel_const_name": kernel.name,
        "kernel_const": kernel,
    }
    count = 1
    for each in draft.after:
        if count > 1:
            draft.refuse(f"'{each.name}' ({each.operator}) behind a bias", "at most one bias")
        last = len(draft.shape(node.output)) - 1
        if each.operator == Operator.BIAS_ADD and each.integer("axis") not in (last, -1):
            draft.refuse(f"a bias along axis {each.integer('axis')}", f"one along the units, axis {last}")
        bias = draft.constant(draft.bias(each), (weights[0],), 1)
        own |= {"bias_const_name": bias.name, "bias_layout": "-O", "bias_const": bias}
        count += 1
    data_layout, out_layout = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    if draft.before:
        _check_flatten(draft)
        own["weights_need_transform"] = "yes"
        data_layout = "NHWC"
    return LayerDraft(FullyConnectedAttributes, own, (draft.data,), count, data_layout, out_layout)


def _check_flatten(draft: KernelDraft) -> None:
    """Refuse nodes before a dense layer that do more than flatten an image in NHWC in the order of NCHW."""
    operators = [node.operator for node in draft.before]
    if operators not in (
        [Operator.LAYOUT_TRANSFORM, Operator.RESHAPE],
        [Operator.LAYOUT_TRANSFORM, Operator.BATCH_FLATTEN],
    ):
        draft.refuse(f"{', '.join(operators)} before it", "layout_transform, then reshape or batch_flatten")
    transform, flatten = draft.before
    layouts = transform.text("src_layout"), transform.text("dst_layout")
    if layouts != ("NHWC", "NCHW"):
        draft.refuse(f"a transform from {layouts[0]} to {layouts[1]} before it", "one from NHWC to NCHW")
    batch, *image = draft.shape(draft.data)
    if (flat := draft.shape(flatten.output)) != (batch, prod(image)):
        draft.refuse(f"'{flatten.name}' to shape {list(flat)}", f"{[batch, prod(image)]}: each image flat")


def total(draft: KernelDraft) -> LayerDraft:
    """Describe a sum or a product. One of its operands may be a constant."""
    node = draft.main
    draft.only((*draft.before, *draft.after))
    shapes = [draft.shape(value) for value in node.inputs]
    rank = max(map(len, shapes))
    if rank > _RANK:
        draft.refuse(f"operands of rank {rank}", f"at most {_RANK}")
    data = tuple(value for value in node.inputs if value not in draft.graph.constants)
    own: dict[str, Any] = {}
    for value, shape in zip(node.inputs, shapes, strict=True):
        if value in draft.graph.constants:
            if not data:
                draft.refuse("two constants", "an operand that is computed")
            constant = draft.constant(value, shape, 0)
            own = {
                "input_const_name": constant.name,
                "input_const_shape": padded(shape, rank),
                "input_const": constant,
            }
    layouts = (draft.layouts[draft.kernel.output],) * 2
    count = len(node.inputs) - len(data)
    return LayerDraft(SumAttributes, own, data, count, *layouts, padded_rank=rank, named_layouts=False)


def padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the shape of a sum's operand with ones in front up to a rank, and behind up to 4."""
    return (1,) * (rank - len(shape)) + tuple(shape) + (1,) * (_RANK - rank)


def concatenation(draft: KernelDraft) -> LayerDraft:
    """Describe a concatenation. Fields that are constants are in the extension."""
    node = draft.main
    draft.only((*draft.before, *draft.after))
    fields = tuple(number for number, value in enumerate(node.inputs) if value not in draft.graph.constants)
    if not fields:
        draft.refuse("constants only", "a field that is computed")
    constant_fields = {
        number: draft.constant(value, draft.shape(value), count).name
        for count, (number, value) in enumerate(
            (number, value) for number, value in enumerate(node.inputs) if number not in fields
        )
    }
    own = {"axis": node.integer("axis") % len(draft.shape(node.output))}
    data = tuple(node.inputs[number] for number in fields)
    layouts = draft.layouts[data[0]], draft.layouts[draft.kernel.output]
    extension = {"constant_fields": constant_fields} if constant_fields else {}
    count = len(constant_fields)
    return LayerDraft(ConcatAttributes, own, data, count, *layouts, extension=extension)


def without_attributes(draft: KernelDraft) -> LayerDraft:
    """Describe a reshape, a flatten, a squeeze, or an activation that is a layer of its own."""
    draft.only((*draft.before, *draft.after))
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(CommonAttributes, {}, (draft.data,), 0, *layouts)


def part(draft: KernelDraft) -> LayerDraft:
    node = draft.main
    draft.only((*draft.before, *draft.after))
    axis = node.integer("axis") % len(draft.shape(draft.data))
    own = {"axis": axis, "begin": node.integer("begin"), "end": node.integer("end")}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(SliceAttributes, own, (draft.data,), 0, *layouts)


def layout_transform(draft: KernelDraft) -> LayerDraft:
    draft.only((*draft.before, *draft.after))
    layouts = draft.main.text("src_layout"), draft.main.text("dst_layout")
    own = {"src_layout": layouts[0], "dst_layout": layouts[1]}
    return LayerDraft(LayoutTransformAttributes, own, (draft.data,), 0, *layouts)


def transposition(draft: KernelDraft) -> LayerDraft:
    draft.only((*draft.before, *draft.after))
    rank = len(draft.shape(draft.data))
    own = {"axes": [axis % rank for axis in draft.main.integers("axes")]}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(TransposeAttributes, own, (draft.data,), 0, *layouts)


def rows(draft: KernelDraft) -> LayerDraft:
    node = draft.main
    draft.only((*draft.before, *draft.after))
    own: dict[str, Any] = {"axis": node.integer("axis") % len(draft.shape(draft.data))}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    if node.operator == Operator.SOFTMAX:
        return LayerDraft(SoftmaxAttributes, own, (draft.data,), 0, *layouts)
    own["epsilon"] = node.real("epsilon")
    return LayerDraft(LayerNormAttributes, own, (draft.data,), 0, *layouts)


def matmul(draft: KernelDraft) -> LayerDraft:
    node = draft.main
    draft.only((*draft.before, *draft.after))
    own = {name: bool(node.integer(name)) for name in ("transpose_a", "transpose_b")}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(MatmulAttributes, own, node.inputs, 0, *layouts)


def mean(draft: KernelDraft) -> LayerDraft:
    node = draft.main
    draft.only((*draft.before, *draft.after))
    rank = len(draft.shape(draft.data))
    own = {"axis": sorted(axis % rank for axis in node.integers("axis")), "keepdims": bool(node.integer("keepdims"))}
    layouts = draft.layouts[draft.data], draft.layouts[draft.kernel.output]
    return LayerDraft(MeanAttributes, own, (draft.data,), 0, *layouts)
