"""What an operator depends on along an axis, found by perturbing its input."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from nnhal.arrays import Array
from nnhal_cascade.geometry.box import Interval

Operator = Callable[[Array], Array]
"""From vectors [batch, input] to vectors [batch, output]."""


def dependencies(operator: Operator, length: int) -> Array:
    """Return [output, input], whether an element of the output changes with one of the input."""
    given = np.random.default_rng(length).uniform(1, 2, length).astype(np.float32)
    perturbed = given + 7 * np.eye(length, dtype=np.float32)
    results = operator(np.vstack([given, perturbed]))
    changed: Array = (results[1:] != results[0]).T
    return changed


def intervals(depends: Array) -> Iterator[tuple[Interval, Interval]]:
    """Yield each interval of the output with the least interval of the input that has all on which it depends."""
    outputs = len(depends)
    for start in range(outputs):
        for stop in range(start + 1, outputs + 1):
            (found,) = np.nonzero(depends[start:stop].any(axis=0))
            yield Interval(start, stop), Interval(int(found[0]), int(found[-1]) + 1) if found.size else Interval(0, 0)
