"""Shared by devices that measure each operation of a prepared model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types.layout import is_scalar
from nnhal_devices.figures import NANOSECONDS, OperationTimes, TimedOperation

MEASURED_RUNS = 20
"""The most runs of a measurement, of which the first does not count if there are more."""
NO_ZEROS = OperationTimes(note="its inputs cannot be zeros: one is no array of numbers, or has open dimensions")


def zeros_for(model: ResolvedModel, element_of: Callable[[int], np.dtype[Any] | None]) -> dict[int, Array] | None:
    """Return zeros for the inputs of main, by operand; None if one is no array of numbers or of unknown dimensions.

    ``element_of`` returns the element type of an operand, None if it is no number.
    """
    main = model.model.main
    found: dict[int, Array] = {}
    for index in main.input_indexes:
        operand, element = main.operands[index], element_of(index)
        is_open = not is_scalar(operand.type) and (not operand.dimensions or 0 in operand.dimensions)
        if is_open or element is None:
            return None
        found[index] = np.zeros(operand.dimensions, element)
    return found


def measured_times(times: Iterable[TimedOperation], runs: int) -> OperationTimes:
    """Return nanoseconds that were measured in so many runs on zeros. ``times`` are read only if there were some."""
    if not runs:
        return OperationTimes(note="no run on zeros succeeded in time")
    return OperationTimes(tuple(times), note=f"measured in {runs} runs on zeros")


def modelled_times(
    model: ResolvedModel, durations: Sequence[float], stands_for: Sequence[tuple[int, ...]] = ()
) -> OperationTimes:
    """Return the nanoseconds of each operation of main by a cost model.

    ``stands_for`` has the operations of the model that was given for each of ``model``, if that is another one.
    """
    origins = stands_for or [(number,) for number in range(len(durations))]
    times = (
        TimedOperation(describe_operation(model.model, number, origin=origin[0]), origin, duration)
        for number, (origin, duration) in enumerate(zip(origins, durations, strict=True))
    )
    return OperationTimes(tuple(times), NANOSECONDS, True, "by the device's cost model")
