"""The optional parts of composites: what may stand before and behind the operator that a layer is about."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.patterns.checks import check_zeros
from nnhal_mlip.flow.patterns.question import CheckQuestion


class PartQuestion(NamedTuple):
    """Question if an operator can be a part of the layer of another one."""

    question: CheckQuestion
    """About the part."""
    asked: FlowNode
    """What the layer is about."""
    between: str
    """The value between the part and what the layer has already."""


FitCheck = Callable[[PartQuestion], Objection | None]


class PatternPart(NamedTuple):
    """An operator that a composite may have beside the one that it is about."""

    operators: tuple[str, ...]
    fits: FitCheck


def _fits_pad(part: PartQuestion) -> Objection | None:
    """Zeros around height and width, if the operator's own padding can be of the same kind."""
    question, asked, _ = part
    widths = question.node.integers("pad_width")
    pairs = [widths[axis : axis + 2] for axis in range(0, len(widths), 2)]
    layout = asked.text("data_layout" if asked.operator == Operator.CONV2D else "layout")
    found = check_zeros(question) or question.rank(question.data, (4,))
    if found:
        return found
    if any(any(pair) for pair, axis in zip(pairs, layout, strict=True) if axis not in "HW"):
        got = f"pad widths {list(widths)}"
        return question.object_to("axes", "NO_IMPL", got, f"height and width of {layout}, the others 0")
    if asked.operator == Operator.CONV2D:
        return None
    own, average = any(asked.integers("padding")), asked.operator == Operator.AVG_POOL2D
    if (own and not (average and asked.integer("count_include_pad"))) or (average and asked.integer("ceil_mode")):
        got = f"zeros before a pool with padding {list(asked.integers('padding'))} or ceil_mode"
        return question.object_to("padding", "NO_IMPL", got, "a pool without padding of its own and without ceil_mode")
    return None


def _fits_bias(part: PartQuestion) -> Objection | None:
    """A constant for each channel, the last axis, or one for all."""
    question, _, between = part
    node, graph = question.node, question.graph
    left = node.inputs[0] != between
    if left and not question.rules.left_bias:
        return question.object_to("bias", "NO_IMPL", "a bias as the left operand", "one as the right operand")
    name = node.inputs[0 if left else 1]
    if name not in graph.constants:
        return question.object_to("bias", "CONSTANT", f"{name}, which is not constant", "a constant bias")
    shape, data = graph.shape(name), graph.values[between]
    by_channel = prod(shape) == 1 or (shape[-1] == data.shape[-1] and prod(shape[:-1]) == 1)
    last = node.operator == Operator.ADD or node.integer("axis") in (-1, data.rank - 1)
    if not by_channel or not last or graph.shape(node.output) != data.shape:
        return question.object_to("bias", "SHAPE", f"a constant of shape {list(shape)}", "one number a channel, or one")
    return None


def _fits_batch_norm(part: PartQuestion) -> Objection | None:
    """Four constants for each channel, the last axis, after floats."""
    question, _, between = part
    node, data = question.node, question.data
    others = [name for name in node.inputs[1:] if name not in question.graph.constants]
    if node.inputs[0] != between or others:
        got = f"{others[0] if others else between}, which is not constant"
        return question.object_to("statistics", "CONSTANT", got, "four constants")
    axis = node.integer("axis")
    if axis not in (-1, data.rank - 1):
        return question.object_to("axis", "NO_IMPL", f"axis {axis}", f"axis {data.rank - 1}, the channels")
    if data.element_type.kind != "f":
        return question.object_to("element_type", "DTYPE", data.element_type.name, "floats")
    return None


def _fits_activation(part: PartQuestion) -> Objection | None:
    """One that the accelerator fuses."""
    operator, allowed = part.question.node.operator, part.question.rules.activations
    if operator in allowed:
        return None
    return Objection("ACTIVATION", operator, " or ".join(allowed), check=f"{part.asked.operator}.activation")


def _fits_flatten(part: PartQuestion) -> Objection | None:
    """All axes but the first become one, so that the weights can be permuted instead of the data."""
    question = part.question
    data, result = question.data.shape, question.result.shape
    if len(data) == 4 and result == (data[0], prod(data[1:])):
        return None
    return question.object_to("flatten", "SHAPE", f"{list(data)} to {list(result)}", "all axes but the batch as one")


def _fits_transform(part: PartQuestion) -> Objection | None:
    """Back to channels first."""
    question = part.question
    layouts = question.node.text("src_layout"), question.node.text("dst_layout")
    if layouts == ("NHWC", "NCHW"):
        return None
    return question.object_to("layouts", "NO_IMPL", f"{layouts[0]} to {layouts[1]}", "NHWC to NCHW")


PAD = PatternPart((Operator.PAD,), _fits_pad)
BIAS = PatternPart((Operator.BIAS_ADD, Operator.ADD), _fits_bias)
BATCH_NORM = PatternPart((Operator.BATCH_NORM,), _fits_batch_norm)
ACTIVATION = PatternPart((Operator.RELU, Operator.CLIP, *TABLES), _fits_activation)
FLATTEN = PatternPart((Operator.RESHAPE, Operator.BATCH_FLATTEN), _fits_flatten)
TO_CHANNELS_FIRST = PatternPart((Operator.LAYOUT_TRANSFORM,), _fits_transform)
