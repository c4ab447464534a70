"""Rules that the operations over sequences share: the order of axes, and how a backward cell is linked."""

from __future__ import annotations

from enum import Enum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.sizes import Sizes
from nnhal.types import OperandType
from nnhal.types.layout import Dimensions


class Linking(Enum):
    """Use of the auxiliary input by a bidirectional operation.

    PARALLEL: it is the backward cell's input. CROSS: both cells read it besides the input, with separate weights.
    """

    NONE = "none"
    PARALLEL = "parallel"
    CROSS = "cross"


def axes_of(time_major: bool) -> tuple[str, str]:
    """Return the names of a sequence's first two axes."""
    return ("time", "batch") if time_major else ("batch", "time")


def linking_of(op: OperationContext, aux_input: int, forward_weights: int, backward_weights: int) -> Linking:
    """Return how the operation uses its auxiliary input. Raises UnknownYet if that depends on the request."""
    forward, backward = op.given(forward_weights), op.given(backward_weights)
    if forward != backward:
        op.refuse("only one of the two cells has weights for the auxiliary input, expected both or none")
    if not op.given(aux_input):
        if forward:
            op.refuse("got weights for the auxiliary input without that input, expected both or none")
        return Linking.NONE
    return Linking.CROSS if forward else Linking.PARALLEL


def note_parallel_linking(op: Signature, aux_input: int, weights: int) -> None:
    """Note that an auxiliary input without weights needs feature level 4."""
    if op.context.has(aux_input) and not op.context.has(weights):
        op.since(4)


def link_sizes(
    op: OperationContext, axes: tuple[str, str], sequence: int, aux_input: int, linking: Linking
) -> tuple[Sizes, Sizes]:
    """Return the sizes of the forward and the backward cell as known from ``sequence`` and the auxiliary input."""
    forward, backward = Sizes(op), Sizes(op)
    forward.learn(sequence, *axes, "input size")
    if linking == Linking.PARALLEL:
        backward.learn(sequence, *axes, "forward input size")
        backward.learn(aux_input, *axes, "input size")
        return forward, backward
    backward.learn(sequence, *axes, "input size")
    if linking == Linking.CROSS:
        for sizes in (forward, backward):
            sizes.learn(aux_input, *axes, "auxiliary size")
    return forward, backward


def validate_outputs(op: Signature, main: OperandType, sequences: int, states: int) -> None:
    """Check the outputs: sequences, then states. States as outputs need feature level 4."""
    if states:
        op.since(4)
    for index in range(sequences + states):
        op.output(index, main, rank=3 if index < sequences else 2)


def merged_outputs(
    op: OperationContext, axes: tuple[str, str], forward: Sizes, backward: Sizes, merged: bool, states: int
) -> tuple[Dimensions, ...]:
    """Return the dimensions of a bidirectional operation's sequences. Refuse a number that contradicts ``merged``."""
    sequences = 1 if merged else 2
    if len(op.outputs) not in (sequences, sequences + states):
        op.refuse(
            f"got {len(op.outputs)} outputs, expected {sequences} or {sequences + states}, since merged is {merged}"
        )
    sizes = forward["output size"], backward["output size"]
    if not merged:
        return tuple((*forward.of(*axes), size) for size in sizes)
    known = op.executing or 0 not in sizes
    return ((*forward.of(*axes), sum(sizes) if known else 0),)
