"""What distance from the reference a layer may have."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.types import OperandType
from nnhal_tools.conformance.vectors import tolerance_of
from nnhal_tools.diff.figures import Figures

_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.FLOAT16)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the user gives; None for those that are not given. Without any, the conformance rules decide."""

    max_ulp: int | None = None
    """Steps of quantised types, units of integers, ULPs of floats."""
    min_sqnr: float | None = None
    """Decibels."""
    max_error: float | None = None
    """The largest distance, in real numbers."""
    min_cosine: float | None = None
    signed_zeros: bool = False
    """Whether no zero may have the other sign."""

    @property
    def given(self) -> bool:
        """Whether the user has given any, so that they decide how a command ends."""
        return any(limit is not None for limit in (self.max_ulp, self.min_sqnr, self.max_error, self.min_cosine))

    def exceeded(self, figures: Figures, code: int, half: bool = False) -> list[str]:
        """Say which limits values of an operand type exceed: what was got, and what is allowed.

        ``half`` says whether floats may be computed with the precision of float16.
        """
        if figures.unmatched:
            return [f"{figures.unmatched:,} elements are no finite number, or no equal one, on one side"]
        found = self._beyond_given(figures, code) if self.given else _beyond_conformance(figures, code, half)
        if self.signed_zeros and figures.other_zeros:
            found.append(f"{figures.other_zeros:,} zeros have the other sign")
        return found

    def _beyond_given(self, figures: Figures, code: int) -> list[str]:
        found = []
        if self.max_ulp is not None and figures.largest_step > self.max_ulp:
            found.append(f"{_counted(figures.largest_step, code)}, allowed {self.max_ulp:,}")
        if self.min_sqnr is not None and figures.noise > figures.signal * 10 ** (-self.min_sqnr / 10):
            got = "no signal" if figures.sqnr is None else f"{figures.sqnr:.1f} dB"
            found.append(f"SQNR: {got}, at least {self.min_sqnr:g} dB allowed")
        if self.max_error is not None and figures.largest > self.max_error:
            found.append(f"largest error {figures.largest:.3g}, allowed {self.max_error:g}")
        if self.min_cosine is not None and not figures.is_equal and (figures.cosine or 0.0) < self.min_cosine:
            found.append(f"cosine {figures.cosine or 0.0:.6f}, at least {self.min_cosine:g} allowed")
        return found


def _beyond_conformance(figures: Figures, code: int, half: bool) -> list[str]:
    absolute, relative = tolerance_of(code, half)
    if relative:
        allowed = absolute + relative * figures.peak
        return [f"largest error {figures.largest:.3g}, allowed {allowed:.3g}"] if figures.largest > allowed else []
    if figures.largest_step > absolute:
        return [f"{_counted(figures.largest_step, code)}, allowed {absolute:g}"]
    return []


def _counted(steps: int, code: int) -> str:
    unit = "ULP" if code in _FLOATS else "step"
    return f"{steps:,} {unit}{'' if steps == 1 else 's'}"
