"""How the outputs of two plans differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnhal.extensions.values import Value, value_to_bytes
from nnhal_dashboard.pages.trying.elements import real_numbers
from nnhal_dashboard.pages.trying.running import TrialRun


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One output of two plans. A text says so if the values cannot be subtracted."""

    name: str
    largest: float = 0.0
    """The largest absolute difference of two values."""
    mean: float = 0.0
    """The mean of the absolute differences."""
    differing: int = 0
    """How many values differ."""
    count: int = 0
    same_best: bool | None = None
    """Whether the largest value is at the same place; None if there is no such thing."""
    text: str = ""


def differences(first: TrialRun, second: TrialRun) -> Iterator[OutputDifference]:
    """Yield how each output differs."""
    others = {tensor.name: value for tensor, value in second.outputs}
    for tensor, value in first.outputs:
        other = others[tensor.name]
        if not (_is_numeric(value) and _is_numeric(other)):
            is_equal = value_to_bytes(value) == value_to_bytes(other)
            yield OutputDifference(tensor.name, text="the values are equal" if is_equal else "the values differ")
        elif value.shape != other.shape:
            shapes = f"dimensions {list(value.shape)} and {list(other.shape)}"
            yield OutputDifference(tensor.name, text=shapes)
        else:
            ours, theirs = real_numbers(value, tensor).reshape(-1), real_numbers(other, tensor).reshape(-1)
            with np.errstate(invalid="ignore"):
                apart = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0.0, np.abs(ours - theirs))
            yield OutputDifference(
                tensor.name,
                float(apart.max(initial=0.0)),
                float(apart.mean()) if apart.size else 0.0,
                int(np.count_nonzero(apart)),
                apart.size,
                bool(np.argmax(ours) == np.argmax(theirs)) if apart.size > 1 else None,
            )


def _is_numeric(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OSU"
