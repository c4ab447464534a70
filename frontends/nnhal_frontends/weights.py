"""The weights of a convolution or fully connected layer as an operand of the HAL model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightsOperand:
    """The operand of a filter, and the scales of its output channels: one for all, one for each, or none for floats."""

    operand: int
    scales: tuple[float, ...] = ()

    @property
    def per_channel(self) -> bool:
        """Return whether each output channel has a scale of its own."""
        return len(self.scales) > 1
