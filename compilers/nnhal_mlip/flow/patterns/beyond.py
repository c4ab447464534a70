"""The checks of operators that no row of the public table has: the accelerator takes them alone."""

from __future__ import annotations

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.patterns.question import CheckQuestion


def check_elementwise(question: CheckQuestion) -> Objection | None:
    """An activation or a transposition of any rank to 4."""
    return question.compiles() or question.element_type(question.data)


def check_pad(question: CheckQuestion) -> Objection | None:
    """Zeros around any axis."""
    return check_elementwise(question) or zeros(question)


def check_mean(question: CheckQuestion) -> Objection | None:
    """Over height and width, which makes it a global average pool."""
    axes = tuple(sorted(axis % question.data.rank for axis in question.node.integers("axis")))
    if question.data.rank != 4 or axes not in ((1, 2), (2, 3)):
        got = f"axes {list(axes)} of rank {question.data.rank}"
        return question.object_to("axis", "NO_IMPL", got, "height and width of rank 4: axes 1 and 2, or 2 and 3")
    return check_elementwise(question)


def zeros(question: CheckQuestion) -> Objection | None:
    """Object to a pad with anything else than zeros. The public flow takes any value for a zero."""
    mode, value = question.node.text("pad_mode"), question.node.real("pad_value")
    if mode != "constant":
        return question.object_to("mode", "NO_IMPL", f"mode {mode}", "constant")
    if value != 0:
        return question.object_to("value", "CONSTANT", f"padding with {value:g}", "0")
    if min(question.node.integers("pad_width")) < 0:
        return question.object_to("width", "SHAPE", "padding that cuts off", "widths of 0 or more")
    return None
