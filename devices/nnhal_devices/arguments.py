"""Arguments of a run as arrays."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal_devices.driver import Argument


def read_argument(argument: Argument, element: np.dtype[np.generic]) -> Array | None:
    """Return an argument's memory as an array of its dimensions, None if it is omitted."""
    if argument.data is None:
        return None
    return argument.data[: element.itemsize * prod(argument.dimensions)].view(element).reshape(argument.dimensions)


def write_argument(argument: Argument, result: Array) -> None:
    """Write a result into an argument's memory, unless it is omitted or too short."""
    if argument.data is not None and result.nbytes <= len(argument.data):
        argument.data[: result.nbytes] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
