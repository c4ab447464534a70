"""The slots of a context: the client's inputs and outputs, and the arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import validate_pool
from nnhal.types import Memory
from nnhal.types.layout import Dimensions
from nnhal_service.fallback import FallbackMemory, FallbackMemoryManager
from nnhal_service.runtime.binding import TensorBinding
from nnhal_service.runtime.domains import DomainMemory
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.slots import DeviceSlot, Element, HostSlot, OmittedSlot, Place, Slot


def client_slots(
    prepared: PreparedPlan,
    bindings: Mapping[int, TensorBinding],
    pools: Sequence[Memory],
    dimensions: Sequence[Dimensions],
) -> dict[int, Slot]:
    """Where the client's tensors lie, by operand of main; ``dimensions`` are those of main's operands as far as known.

    Raises INVALID_ARGUMENT for a pool that is none, and an output that is left out.
    """
    outputs = {tensor.operand for tensor in prepared.imported.outputs}
    slots: dict[int, Slot] = {}
    for operand, binding in bindings.items():
        declared = prepared.imported.model.main.operands[operand]
        element = Element(declared.type, prepared.element_sizes)
        is_output = operand in outputs
        name = binding.name if is_output else ""
        stated = binding.dimensions or (() if 0 in declared.dimensions else declared.dimensions)
        if binding.omitted:
            if is_output:
                invalid_argument(f"output {binding.name} is left out, expected that of inputs only")
            slots[operand] = OmittedSlot(element, stated)
        elif binding.memory is not None:
            if not is_output and not stated:
                stated = binding.memory.dimensions
            slots[operand] = _in_memory(element, stated, binding.memory, dimensions[operand], name)
        else:
            location = binding.location
            if not 0 <= location.pool_index < len(pools):
                invalid_argument(f"a binding lies in pool {location.pool_index} of {len(pools)}")
            place = Place(pools[location.pool_index], location.offset, location.length, location.padding)
            expected = () if element.size(stated) else dimensions[operand]
            slots[operand] = HostSlot(element, stated, place, name, expected)
    return slots


def arena_slots(
    prepared: PreparedPlan, manager: FallbackMemoryManager, memory: FallbackMemory, dimensions: Sequence[Dimensions]
) -> dict[int, Slot]:
    """Where the values between steps lie that have a place in an arena, by operand of main."""
    slots: dict[int, Slot] = {}
    for operand, place in manager.layout.placements.items():
        element = Element(prepared.imported.model.main.operands[operand].type, prepared.element_sizes)
        size = element.size(dimensions[operand])
        slots[operand] = HostSlot(element, dimensions[operand], Place(memory.pools[place.kind], place.offset, size))
    return slots


def _in_memory(element: Element, stated: Dimensions, memory: DomainMemory, expected: Dimensions, name: str) -> Slot:
    if memory.device:
        return DeviceSlot(element, stated, memory, name, expected)
    pool = memory.pool
    if isinstance(pool, int):
        general_failure(f"memory of the host is token {pool}, expected memory that can be mapped")
    size = element.size(stated) or element.size(expected) or validate_pool(pool, "the host's memory")
    return HostSlot(element, stated, Place(pool, 0, size), name)
