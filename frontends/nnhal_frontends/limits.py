"""Limits of importing one model.

Operations on constants are computed on import only within a budget. What exceeds it is left to the devices, as are
operations on values that are known only at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ImportLimits:
    nodes: int = 100_000
    """Nodes of a model, those of its subgraphs and functions included."""
    operation_bytes: int = 64 * _MEBIBYTE
    """Bytes that one operation on constants may make, or twice the bytes of the model's own constants if those are
    more."""
    folded_bytes: int = 256 * _MEBIBYTE
    """Bytes that all computed constants may take at a time, besides four times those of the model's own constants."""
    folding_work: int = 1 << 28
    """Elements that may be read and written to compute constants, besides eight times the elements of the model's own
    constants."""


DEFAULT_LIMITS = ImportLimits()


@dataclass(slots=True)
class FoldingBudget:
    """Rest of the limits while constants are computed."""

    limits: ImportLimits
    own_bytes: int
    """Bytes of the model's own constants."""
    own_elements: int
    """Their elements."""
    held_bytes: int = field(init=False, default=0)
    """Bytes of the computed constants that are still needed."""
    work: int = field(init=False, default=0)
    """Elements that have been read and written."""

    def admit(self, result_bytes: int, work: int) -> bool:
        """Charge an operation, and return whether it may be computed; if not, nothing is charged."""
        limits = self.limits
        fits = (
            result_bytes <= max(limits.operation_bytes, 2 * self.own_bytes)
            and self.held_bytes + result_bytes <= limits.folded_bytes + 4 * self.own_bytes
            and self.work + work <= limits.folding_work + 8 * self.own_elements
        )
        if fits:
            self.held_bytes += result_bytes
            self.work += work
        return fits

    def release(self, result_bytes: int) -> None:
        """Give back the bytes of constants that nothing reads any more."""
        self.held_bytes -= result_bytes
