"""Operations that ethos_u takes beyond the report of Vela 5.2 for Ethos-U55 and U65: the hardware has it, Vela leaves
it out.

A copy with strides is a pass of the pooling unit with a window of one element, whose feature maps have strides of their
own along each axis. A sum over channels is a convolution of 1 x 1 with weights of one. The table of the output unit has
an entry for each 8-bit value, so any function of one element is one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nnhal.operations import OperationContext
from nnhal.operations.joining import strided_ranges
from nnhal.operations.operand_types import Q8A
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.support.npu import MAX_RANK, as_images
from nnhal.types import OperationType

BLOCKS = frozenset({OperationType.DEPTH_TO_SPACE, OperationType.SPACE_TO_DEPTH})
TABLES = frozenset({OperationType.FLOOR, OperationType.POW, OperationType.SIN, OperationType.SQRT})
"""Functions of islands of floats that no operator of the report becomes."""
_LONGEST_MEAN = 4096
_ALLOWED = "what Vela 5.2 reports for Ethos-U55 and U65"
_HINT = "the hardware computes it: leave out like_vela"


def like_vela(op: OperationContext) -> Support:
    """Refuse what an operation, or the reduction of an island, has beyond Vela's report."""
    got = ""
    if op.type in BLOCKS:
        got = op.type.name
    elif op.type == OperationType.RSQRT and op.inputs[0].type == Q8A:
        got = "RSQRT of unsigned numbers"
    elif op.type == OperationType.STRIDED_SLICE and strided_ranges(op)[-1].step > 1:
        got = "a slice with a stride over channels"
    elif op.type == OperationType.MEAN:
        given = op.dimensions(MeanInput.INPUT)
        if len(given) - 1 in axes_of_mean(op) and 1 not in as_images(given)[1:MAX_RANK]:
            got = "a mean over channels of an image of several rows and columns"
        elif (longest := max(given[axis] for axis in axes_of_mean(op))) > _LONGEST_MEAN:
            got = f"a mean over an axis of {longest} elements"
    return Unsupported("KERNEL", got, _ALLOWED, _HINT) if got else SUPPORTED


def tables_like_vela(functions: Iterable[OperationType]) -> Support:
    """Refuse an island that has a function beyond Vela's report."""
    beyond = sorted(TABLES.intersection(functions))
    return Unsupported("OP", beyond[0].name, _ALLOWED, _HINT) if beyond else SUPPORTED
