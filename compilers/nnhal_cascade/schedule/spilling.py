"""Addresses in the spill region: whole tensors, none over another that lives at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.schedule.schedule import TensorBuffer


def place_spilled(
    homes: Homes, interior: frozenset[int], first: Sequence[int], last: Sequence[int]
) -> tuple[list[TensorBuffer], int]:
    """Return the buffers of spilled tensors, the largest first at the lowest free address, and their peak in bytes.

    ``interior`` tensors lie between the parts of a plan and are not spilled. ``first`` and ``last`` are the plans in
    which each tensor is alive.
    """
    spill = homes.system.spill
    if spill is None:
        return [], 0
    found: list[TensorBuffer] = []
    for index in sorted(homes.spilled - interior, key=lambda each: -homes.graph.tensors[each].bytes):
        tensor = homes.graph.tensors[index]
        address = 0
        for other in sorted(found, key=lambda each: each.address):
            apart = other.last < first[index] or last[index] < other.first
            if not apart and other.address < address + tensor.bytes:
                address = max(address, other.address + other.bytes)
        found.append(
            TensorBuffer(index, spill.name, address, tensor.shape, tensor.element_bytes, first[index], last[index])
        )
    return found, max((each.address + each.bytes for each in found), default=0)
