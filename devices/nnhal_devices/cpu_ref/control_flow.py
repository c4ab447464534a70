"""IF and WHILE: operations that run subgraphs of their model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.types import ErrorStatus, Operand, OperationType


@dataclass(frozen=True, slots=True)
class ControlFlowCall:
    """One execution of an IF or WHILE."""

    place: str
    """The operation, for error messages."""

    inputs: Sequence[Operand]

    values: Sequence[Array | None]
    """The values of the inputs; None for subgraphs and omitted inputs."""

    outputs: int
    """The number of outputs."""

    run: Callable[[int, Sequence[Array | None]], list[Array]]
    """Runs a subgraph, given its number (0 is main) and its inputs."""

    loop_timeout_ns: int
    """For this loop alone: a nested loop has its own."""


def choose(op: ControlFlowCall) -> tuple[Array, ...]:
    """Run IF: the outputs are those of the chosen branch. The other one does not run."""
    branch = op.inputs[1 if _truth(op.values[0], op.place) else 2]
    return tuple(op.run(_subgraph(branch), op.values[3:]))


def repeat(op: ControlFlowCall) -> tuple[Array, ...]:
    """Run WHILE: the outputs are the first loop values for which the condition is false.

    The body's outputs become the first inputs of the next pass; the other inputs stay as they were. Raises
    MISSED_DEADLINE_TRANSIENT if a further pass is due after the loop timeout.
    """
    condition, body = (_subgraph(operand) for operand in op.inputs[:2])
    values = list(op.values[2:])
    end = now_ns() + op.loop_timeout_ns
    while _truth(op.run(condition, values)[0], op.place):
        if now_ns() > end:
            raise HalError(
                ErrorStatus.MISSED_DEADLINE_TRANSIENT, f"{op.place}: the loop took more than {op.loop_timeout_ns} ns"
            )
        results = op.run(body, values)
        values[: len(results)] = results
    return tuple(_given(value, op.place) for value in values[: op.outputs])


CONTROL_FLOW: dict[int, Callable[[ControlFlowCall], tuple[Array, ...]]] = {
    OperationType.IF: choose,
    OperationType.WHILE: repeat,
}


def _subgraph(operand: Operand) -> int:
    return 1 + operand.location.offset


def _truth(condition: Array | None, place: str) -> bool:
    value = _given(condition, place)
    if value.shape != (1,):
        general_failure(f"{place}: its condition has dimensions {list(value.shape)}, expected [1]")
    return bool(value[0])


def _given(value: Array | None, place: str) -> Array:
    if value is None:
        invalid_argument(f"{place}: an input that it needs the value of is omitted")
    return value
