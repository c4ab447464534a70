"""IF and WHILE: operations that run subgraphs of their model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.types import ErrorStatus, Operand, OperationType


@dataclass(frozen=True, slots=True)
class ControlFlowCall:
    """One entry into an IF or WHILE.

    ``values`` of the inputs are None for subgraphs and for what the request omits. ``run`` takes a subgraph (0 is main)
    and its inputs. ``loop_timeout_ns`` is for this entry alone: a nested loop has its own.
    """

    place: str
    inputs: Sequence[Operand]
    values: Sequence[Array | None]
    outputs: int
    run: Callable[[int, Sequence[Array | None]], list[Array]]
    loop_timeout_ns: int


def choose(op: ControlFlowCall) -> tuple[Array, ...]:
    """IF: the outputs of the chosen branch. Nothing of the other one is run."""
    branch = op.inputs[1 if _truth(op.values[0], op.place) else 2]
    return tuple(op.run(_subgraph(branch), op.values[3:]))


def repeat(op: ControlFlowCall) -> tuple[Array, ...]:
    """WHILE: the first loop values, once the condition is false of them.

    The body's outputs become the first of the next round's inputs; what it has no outputs for stays as it was. Raises
    MISSED_DEADLINE_TRANSIENT when a further round is due after the loop timeout.
    """
    condition, body = (_subgraph(operand) for operand in op.inputs[:2])
    values = list(op.values[2:])
    end = _now_ns() + op.loop_timeout_ns
    while _truth(op.run(condition, values)[0], op.place):
        if _now_ns() > end:
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


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
