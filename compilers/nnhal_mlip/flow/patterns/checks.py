"""The checks of the pattern table: each returns None, or why the accelerator does not take an operator.

By the public rules they answer as TVM 0.19 does (python/tvm/relay/op/contrib/mrvl.py), except when that would crash, be
wrong without a word, or fail in a later step: such operators stay on the host.
"""

from __future__ import annotations

import numpy as np

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.operators import Operator, image_axes
from nnhal_mlip.flow.graph.windows import all_touch, reach
from nnhal_mlip.flow.patterns.question import CheckQuestion

_LONGEST_ROW = 1 << 16
_LARGEST_HALF = float(np.finfo(np.float16).max)


def check_limits(question: CheckQuestion) -> Objection | None:
    """Object to what the table of limits does not allow. What a table cannot say is for the other checks."""
    limits = question.limits
    found = (
        question.compiles()
        or question.rank(question.data, limits.ranks, limits.operand)
        or question.rank(question.result, limits.results, "a result")
        or question.element_type(question.data)
        or question.batch(limits.batch, unknown=not limits.known_batch)
        or (_weights(question, limits.weights) if limits.weights else None)
    )
    for attribute, layouts in limits.layouts.items():
        found = found or question.layout(attribute, layouts)
    return found


def check_conv2d_transpose(question: CheckQuestion) -> Objection | None:
    """Windows that touch each other without overlap, of one group and without padding."""
    node = question.node
    strides, kernel = node.integers("strides"), node.integers("kernel_size")
    more = (*node.integers("padding"), *node.integers("output_padding"))
    if strides == kernel and node.integer("groups") == 1 and not any(more):
        return None
    got = f"a window of {list(kernel)} by {list(strides)}, {node.integer('groups')} groups, padding {list(more)}"
    return question.object_to("window", "KERNEL", got, "windows as large as their strides, one group, no padding")


def check_multiply(question: CheckQuestion) -> Objection | None:
    """Tensors of any ranks to 4, one of which may be constant."""
    graph = question.graph
    operands = question.computed_operands()
    found = next(filter(None, map(question.element_type, operands)), None)
    constants = [graph.constants[name] for name in question.node.inputs if name in graph.constants]
    largest = max((float(np.abs(each).max(initial=0)) for each in constants if each.dtype.kind == "f"), default=0.0)
    if found or (operands and largest <= _LARGEST_HALF):
        return found
    return question.object_to("constant", "CONSTANT", f"a constant {largest:g}", f"at most {_LARGEST_HALF:g}")


def check_add(question: CheckQuestion) -> Objection | None:
    """The left operand decides; that of a bare convolution or dense layer would make this a bias."""
    left = question.node.inputs[0]
    if left not in question.bare or question.rules.beyond:
        return None
    return question.object_to("left", "OP", f"{left} of an operator that stays on the host", "another left operand")


def check_concatenate(question: CheckQuestion) -> Objection | None:
    """Publicly two fields or more of rank 4 and batch 1, along the channels."""
    limits, node = question.limits, question.node
    if len(node.inputs) < limits.fields:
        return question.object_to("fields", "SHAPE", f"{len(node.inputs)} field", f"{limits.fields} or more")
    found: Objection | None = None
    for name in node.inputs:
        value = question.graph.values[name]
        found = found or question.rank(value, limits.field_ranks, f"the field {name}") or question.element_type(value)
        if not found and value.rank > 1 and value.shape[0] > limits.field_batch:
            got = f"the field {name} with batch {value.shape[0]}"
            found = question.object_to("batch", "SHAPE", got, f"at most {limits.field_batch}")
    axis = node.integer("axis")
    if not found and axis not in limits.axes:
        return question.object_to("axis", "NO_IMPL", f"axis {axis}", "axis 3, the channels of NHWC")
    return found


def check_layout_transform(question: CheckQuestion) -> Objection | None:
    """Publicly from NCHW to NHWC only."""
    node, transforms = question.node, question.limits.transforms
    layouts = node.text("src_layout"), node.text("dst_layout")
    if layouts in transforms:
        return None
    allowed = " or ".join(f"{source} to {target}" for source, target in transforms)
    return question.object_to("layouts", "NO_IMPL", f"{layouts[0]} to {layouts[1]}", allowed)


def check_windows(question: CheckQuestion) -> Objection | None:
    """Object to windows without data, which have no maximum and no average."""
    node = question.node
    padding = node.integers("padding")
    counted = node.operator == Operator.AVG_POOL2D and bool(node.integer("count_include_pad"))
    for index, axis in enumerate(image_axes(node.text("layout"))):
        size, count = question.data.shape[axis], question.result.shape[axis]
        before, after = padding[index], padding[index + 2]
        kernel, stride, dilation = (node.integers(name)[index] for name in ("pool_size", "strides", "dilation"))
        first, end = (-before, size + after) if counted else (0, size)
        if size and not all_touch(reach(count, kernel, stride, dilation, before), first, end):
            got = f"a window that has nothing but padding, of {list(padding)}"
            return question.object_to("window", "SHAPE", got, "some data in each window")
    return None


def _weights(question: CheckQuestion, rank: int) -> Objection | None:
    """Object to weights that are not constant: the public flow takes them, and its node then lacks the weights."""
    name = question.node.inputs[1]
    value = question.graph.values[name]
    if name not in question.graph.constants:
        hint = "export the network with its weights as constants"
        got = f"weights {question.origin(name)} that are not constant"
        return question.object_to("weights", "CONSTANT", got, "constants", hint)
    return question.rank(value, (rank,), "weights") or question.element_type(value, value.shape[0])


def check_groups(question: CheckQuestion) -> Objection | None:
    """Publicly object to groups, unless each channel of the data is one and has one output channel."""
    groups = question.node.integer("groups")
    channels = question.data.shape[question.node.text("data_layout").index("C")]
    made = question.graph.shape(question.node.inputs[1])[question.node.text("kernel_layout").index("O")]
    if question.limits.groups or groups == 1 or groups == channels == made:
        return None
    got = f"{groups} groups of {channels} input and {made} output channels"
    return question.object_to("groups", "KERNEL", got, "1, or as many as there are input and output channels")


def check_rows(question: CheckQuestion) -> Objection | None:
    """Rows along an axis, each of which a tile holds with its result."""
    length = question.data.shape[question.node.integer("axis")]
    if length <= _LONGEST_ROW:
        return None
    return question.object_to("row", "SHAPE", f"rows of {length} elements", f"at most {_LONGEST_ROW}")


def check_matmul(question: CheckQuestion) -> Objection | None:
    """Matrices that are both computed: one that is constant is the weights of a dense layer."""
    constants = [name for name in question.node.inputs if name in question.graph.constants]
    if constants:
        hint = "export the product as a Gemm or a dense layer"
        return question.object_to("operands", "CONSTANT", f"a constant {question.origin(constants[0])}", "none", hint)
    return question.element_type(question.graph.values[question.node.inputs[1]])


def check_mean(question: CheckQuestion) -> Objection | None:
    """Over height and width, which makes it a global average pool."""
    axes = tuple(sorted(axis % question.data.rank for axis in question.node.integers("axis")))
    if question.data.rank != 4 or axes not in ((1, 2), (2, 3)):
        got = f"axes {list(axes)} of rank {question.data.rank}"
        return question.object_to("axis", "NO_IMPL", got, "height and width of rank 4: axes 1 and 2, or 2 and 3")
    return None


def check_zeros(question: CheckQuestion) -> Objection | None:
    """Object to a pad with anything else than zeros. The public flow takes any value for a zero."""
    mode, value = question.node.text("pad_mode"), question.node.real("pad_value")
    if mode != "constant":
        return question.object_to("mode", "NO_IMPL", f"mode {mode}", "constant")
    if value != 0:
        return question.object_to("value", "CONSTANT", f"padding with {value:g}", "0")
    if min(question.node.integers("pad_width")) < 0:
        return question.object_to("width", "SHAPE", "padding that cuts off", "widths of 0 or more")
    return None
