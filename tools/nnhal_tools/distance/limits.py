"""Limits of a layer's distance from the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.types import Model, Operand, OperandType
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_tools.distance.bias import bias_of
from nnhal_tools.distance.figures import Distance, Figures, steps_between
from nnhal_tools.element_types import element_type_of

_HALF = (5 * 2.0**-10, 5 * 2.0**-10)
_FLOAT = (1e-5, 5 * 2.0**-23)
_NUMBERS, _HALF_BYTES = "fiu", 2
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
        """True if the user has given any, so that they decide how a command ends."""
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


NO_LIMITS = Limits()


def judged(
    limits: Limits,
    operand: Operand,
    half: bool,
    got: Sequence[Array],
    wanted: Sequence[Array],
    inputs: Mapping[str, tuple[Operand, Sequence[Array]]],
) -> tuple[Figures, list[str]]:
    """Return how far samples of a value are from those of a reference, and which limits that exceeds, in words.

    ``got`` and ``wanted`` have the same shapes. ``inputs`` are those of the layer, by what they are called. If no
    limits are given, integers must have no bias (``bias.py``). ``half`` is that of ``Limits.exceeded``.
    """
    distance = Distance(operand, limits.signed_zeros)
    for one, other in zip(got, wanted, strict=True):
        distance.add(one, other)
    figures = distance.figures
    over = limits.exceeded(figures, operand.type, half)
    if over or limits.given or not (_are_integers(got) and _are_integers(wanted)):
        return figures, over
    expected = np.stack(wanted)
    signs = {
        name: np.stack(values).astype(np.int64) - described.zero_point
        for name, (described, values) in inputs.items()
        if _are_integers(values) and values[0].shape == expected.shape[1:]
    }
    found = bias_of(steps_between(np.stack(got), expected), expected, operand.zero_point, signs)
    return figures, [str(found)] if found else []


def is_half(model: Model) -> bool:
    """True if float32 may be computed with the precision of float16, as conformance tests have it."""
    halves = any(operand.type == OperandType.TENSOR_FLOAT16 for operand in model.main.operands)
    return halves or model.relax_computation_float32_to_float16


def tolerance_of(code: int, half: bool) -> tuple[float, float]:
    """Return the absolute and the relative tolerance of an operand type, in its own numbers.

    ``half`` says whether floats of 32 bits may be computed with the precision of float16.
    """
    if code in (OperandType.TENSOR_FLOAT16, OperandType.FLOAT16):
        return _HALF
    if code in (OperandType.TENSOR_FLOAT32, OperandType.FLOAT32):
        return _HALF if half else _FLOAT
    return (0.0, 0.0) if code in (OperandType.TENSOR_BOOL8, OperandType.BOOL) else (1.0, 0.0)


def element_rule(model: Model, code: int) -> tuple[np.dtype[np.generic], float, float]:
    """Return the elements of an operand type, and their absolute and relative tolerance.

    Floats of extensions may be as far apart as those of the HAL, their other values must be equal.
    """
    element = element_type_of(model, code)
    if code not in ELEMENT_TYPES and element.kind not in _NUMBERS:
        return np.dtype(np.uint8), 0.0, 0.0
    if code in ELEMENT_TYPES:
        return element, *tolerance_of(code, is_half(model))
    if element.kind != "f":
        return element, 0.0, 0.0
    like = OperandType.TENSOR_FLOAT16 if element.itemsize == _HALF_BYTES else OperandType.TENSOR_FLOAT32
    return element, *tolerance_of(like, is_half(model))


def _are_integers(samples: Sequence[Array]) -> bool:
    """True if samples are arrays of integers, all of one shape."""
    return len({each.shape for each in samples}) == 1 and samples[0].dtype.kind in "iu"


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
