"""Outputs that a device has not written, distinguished from right ones: ``--paint-outputs``.

The memory of outputs is painted before a run, and painted otherwise before a second run of the same. What a device
writes is there after both; what it leaves has one paint after the first run and the other after the second. Results
cannot be mistaken for it, since they are the same both times, unless they are random: then one byte in 65,536 is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.tensors import stored_inputs
from nnhal_client.model import Model

PAINTS = (0xA5, 0x5A)
"""The bytes of the two paints, which differ in each bit."""


class Unwritten(NamedTuple):
    """Elements of an output that a device has not written."""

    left: int
    """Bytes that were not written."""
    size: int
    """Bytes of the output."""
    first: int
    """Offset in the output of the first."""

    def __str__(self) -> str:
        return f"{self.left} of {self.size} bytes were not written, the first at offset {self.first}"


def paint(view: Array, number: int) -> None:
    """Paint the memory of an array, which has no gaps, with one of the paints."""
    view.reshape(-1).view(np.uint8)[...] = PAINTS[number]


def unwritten(first: Bytes, second: Bytes) -> Unwritten | None:
    """Compare an output, without its padding, after a run with each paint. Returns None if all of it was written."""
    (left,) = np.nonzero((first == PAINTS[0]) & (second == PAINTS[1]))
    return Unwritten(len(left), len(first), int(left[0])) if len(left) else None


def unwritten_outputs(model: Model, arrays: Mapping[str, Array]) -> dict[str, Unwritten]:
    """Run a model three times, and return what its devices leave of outputs, by their names.

    The first run tells the dimensions of outputs. Raises as runs do.
    """
    stored = stored_inputs(model.inputs, arrays)
    given = {tensor.name: stored[tensor.name].shape for tensor in model.inputs if tensor.is_open}
    with model.bind(dimensions=given, direct=False) as binding:
        binding.fill(stored)
        binding.run()
        seen: list[dict[str, Bytes]] = []
        for number in range(2):
            if model.states:
                binding.reset_state()
            for view in binding.outputs.values():
                paint(view, number)
            binding.run()
            seen.append({name: view.reshape(-1).view(np.uint8).copy() for name, view in binding.outputs.items()})
    found = {name: unwritten(first, seen[1][name]) for name, first in seen[0].items()}
    return {name: left for name, left in found.items() if left is not None}
