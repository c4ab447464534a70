"""What the operations over sequences share: the order of their axes, and how a backward cell is linked."""

from __future__ import annotations

from enum import Enum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._sizes import Sizes
from nnhal.types import OperandType
from nnhal.types.layout import Dimensions


class Linking(Enum):
    """What a bidirectional operation does with its auxiliary input.

    PARALLEL: it is the backward cell's input. CROSS: both cells read it beside the input, by weights of its own.
    """

    NONE = "none"
    PARALLEL = "parallel"
    CROSS = "cross"


def axes_of(time_major: bool) -> tuple[str, str]:
    """The names of a sequence's first two axes."""
    return ("time", "batch") if time_major else ("batch", "time")


def linking_of(op: OperationContext, aux_input: int, forward_weights: int, backward_weights: int) -> Linking:
    """How the auxiliary input and its weights are given. Raises UnknownYet where only the request will tell."""
    forward, backward = op.given(forward_weights), op.given(backward_weights)
    if forward != backward:
        op.refuse("one of the two cells has weights for the auxiliary input, expected both or none")
    if not op.given(aux_input):
        if forward:
            op.refuse("it has weights for the auxiliary input, which is left out")
        return Linking.NONE
    return Linking.CROSS if forward else Linking.PARALLEL


def note_parallel_linking(op: Signature, aux_input: int, weights: int) -> None:
    """Learn the feature level of an auxiliary input without weights: 4."""
    if op.context.has(aux_input) and not op.context.has(weights):
        op.since(4)


def link_sizes(
    op: OperationContext, axes: tuple[str, str], sequence: int, aux_input: int, linking: Linking
) -> tuple[Sizes, Sizes]:
    """What the forward and the backward cell learn from the input (``sequence``) and the auxiliary input."""
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
    """Check the outputs: sequences, then states. States as outputs came with feature level 4."""
    if states:
        op.since(4)
    for index in range(sequences + states):
        op.output(index, main, rank=3 if index < sequences else 2)


def merged_outputs(
    op: OperationContext, axes: tuple[str, str], forward: Sizes, backward: Sizes, merged: bool, states: int
) -> tuple[Dimensions, ...]:
    """The dimensions of a bidirectional operation's sequences. Refuses a number of outputs that ``merged`` forbids."""
    sequences = 1 if merged else 2
    if len(op.outputs) not in (sequences, sequences + states):
        op.refuse(f"got {len(op.outputs)} outputs, expected {sequences} or {sequences + states}: merged is {merged}")
    sizes = forward["output size"], backward["output size"]
    if not merged:
        return tuple((*forward.of(*axes), size) for size in sizes)
    known = op.executing or 0 not in sizes
    return ((*forward.of(*axes), sum(sizes) if known else 0),)
