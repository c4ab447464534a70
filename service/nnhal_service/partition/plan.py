"""What a partitioner yields."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types import Model


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a model for one device.

    ``operations``, ``inputs`` and ``outputs`` are indexes into the source model's main subgraph; ``inputs`` and
    ``outputs`` name the operands that the step model's inputs and outputs stand for, in its order.
    """

    device: str
    model: Model
    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which they can be executed."""

    steps: tuple[Step, ...]

    def crossing(self) -> dict[int, tuple[int, int]]:
        """The temporaries that pass between steps: operand -> (step that writes it, last step that reads it)."""
        written = {operand: number for number, step in enumerate(self.steps) for operand in step.outputs}
        return {
            operand: (written[operand], number)
            for number, step in enumerate(self.steps)
            for operand in step.inputs
            if operand in written
        }
