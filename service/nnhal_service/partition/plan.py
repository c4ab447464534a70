"""What a partitioner yields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nnhal.types import Model


class Fallback(Enum):
    """What to do when a device fails: go on without it, go on and say so, or fail."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a model for one device.

    ``operations``, ``inputs`` and ``outputs`` are indexes into the source subgraph, which is main unless control flow
    is walked by the runtime (then ``scope`` tells); ``inputs`` and ``outputs`` name the operands that the step model's
    inputs and outputs stand for, in its order. ``downstream`` are those of the source's own outputs that other steps
    read too: they lie in the client's memory, and are taken from there.
    """

    device: str
    model: Model
    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    downstream: tuple[int, ...] = ()
    scope: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which they can be executed."""

    steps: tuple[Step, ...]
    fallback: Fallback = Fallback.ALLOW

    def crossing(self) -> dict[int, tuple[int, int]]:
        """The values that pass between steps: operand -> (step that writes it, last step that reads it)."""
        written = {operand: number for number, step in enumerate(self.steps) for operand in step.outputs}
        return {
            operand: (written[operand], number)
            for number, step in enumerate(self.steps)
            for operand in step.inputs
            if operand in written
        }
