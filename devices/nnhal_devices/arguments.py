"""Arguments of a run as arrays, and workloads that compute with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal_devices.driver import Argument, Control, Outcome


def read_argument(argument: Argument, element: np.dtype[np.generic]) -> Array | None:
    """Return an argument's memory as an array of its dimensions, None if it is omitted."""
    if argument.data is None:
        return None
    return argument.data[: element.itemsize * prod(argument.dimensions)].view(element).reshape(argument.dimensions)


def write_argument(argument: Argument, result: Array) -> None:
    """Write a result into an argument's memory, unless it is omitted or too short."""
    if argument.data is not None and result.nbytes <= len(argument.data):
        argument.data[: result.nbytes] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)


class BoundArrayWorkload:
    """A workload that computes with arrays, bound to memory."""

    def __init__(
        self, compute: Callable[[Control], tuple[Sequence[Array], int | None]], outputs: Sequence[Argument]
    ) -> None:
        """``compute`` returns the results, and the modelled nanoseconds of the run if there is a model."""
        self._compute = compute
        self._outputs = outputs

    def run(self, control: Control) -> Outcome:
        """Compute, and write the results to memory."""
        results, duration_ns = self._compute(control)
        for result, argument in zip(results, self._outputs, strict=True):
            write_argument(argument, result)
        return Outcome(tuple(result.shape for result in results), duration_ns)
