"""Memory that a client binds to the inputs and outputs of a model, and the slots that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import validate_pool
from nnhal.remote import RemotePreparedModel
from nnhal.types import DataLocation, ExecutionConfig, Memory
from nnhal.types.layout import Dimensions
from nnhal.types.memory import NOWHERE
from nnhal_frontends.imported import ImportedTensor
from nnhal_service.fallback import FallbackMemory, FallbackMemoryManager, PassedValues
from nnhal_service.runtime.memory.domains import BoundMemory, allocate_kept
from nnhal_service.runtime.memory.resident_slot import ResidentSlot
from nnhal_service.runtime.memory.slots import DeviceSlot, Element, HostSlot, MemoryRange, OmittedSlot, Slot
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """The memory of one input or output of the model: a location, whose pool index refers to the caller's pools.

    ``memory`` replaces the location. ``omitted`` says that an optional input has no value.
    """

    name: str
    location: DataLocation = NOWHERE
    dimensions: Dimensions = ()
    memory: BoundMemory | None = None
    omitted: bool = False


@dataclass(frozen=True, slots=True)
class Bindings:
    """Memory that a client has bound a model to, and its options of runs."""

    inputs: Mapping[int, TensorBinding]
    """By operand of main."""
    outputs: Mapping[int, TensorBinding]
    """By operand of main."""
    pools: Sequence[Memory]
    config: ExecutionConfig
    missed: Callable[[frozenset[str]], bool]
    """Called with the devices that were gone in a run. Returns whether the run is to be tried by another plan."""
    released: Callable[[], None]
    """Called before executions are released."""
    varies: bool = False
    """True if each run has lengths of its own, and the dimensions of inputs are the largest."""
    writers: list[RemotePreparedModel] = field(default_factory=list)
    """Parts that may still write to the client's outputs since their device sleeps: one list for all bindings of a
    client to the same memory."""


def bindings_of(
    tensors: Sequence[ImportedTensor], bindings: Sequence[TensorBinding], what: str
) -> dict[int, TensorBinding]:
    """The bindings by operand of main. Raises INVALID_ARGUMENT unless each tensor has exactly one."""
    given = {binding.name: binding for binding in bindings}
    wanted = {tensor.name: tensor for tensor in tensors}
    if given.keys() != wanted.keys() or len(given) != len(bindings):
        invalid_argument(f"got {what}s {sorted(b.name for b in bindings)}, expected each of {sorted(wanted)} once")
    return {tensor.operand: given[name] for name, tensor in wanted.items()}


def client_slots(
    prepared: PreparedPlan,
    bindings: Mapping[int, TensorBinding],
    pools: Sequence[Memory],
    dimensions: Sequence[Dimensions],
) -> dict[int, Slot]:
    """The slots of the client's tensors, by operand of main; ``dimensions`` are those of main's operands.

    Raises INVALID_ARGUMENT for an unknown pool, and for an output that is omitted.
    """
    outputs = {tensor.operand for tensor in prepared.imported.all_outputs}
    slots: dict[int, Slot] = {}
    for operand, binding in bindings.items():
        declared = prepared.imported.model.main.operands[operand]
        element = Element(declared.type, prepared.element_sizes)
        is_output = operand in outputs
        name = binding.name if is_output else ""
        stated = binding.dimensions or (() if 0 in declared.dimensions else declared.dimensions)
        if binding.omitted:
            if is_output:
                invalid_argument(f"output {binding.name} is omitted; only an input may be")
            slots[operand] = OmittedSlot(element, stated)
        elif binding.memory is not None:
            if not is_output and not stated and not binding.memory.device:
                stated = binding.memory.dimensions
            slots[operand] = _in_memory(element, stated, binding.memory, dimensions[operand], name)
        else:
            location = binding.location
            if not 0 <= location.pool_index < len(pools):
                invalid_argument(f"a binding lies in pool {location.pool_index} of {len(pools)}")
            place = MemoryRange(pools[location.pool_index], location.offset, location.length, location.padding)
            expected = () if element.size(stated) else dimensions[operand]
            slots[operand] = HostSlot(element, stated, place, name, expected)
    return slots


def arena_slots(
    prepared: PreparedPlan, manager: FallbackMemoryManager, memory: FallbackMemory, dimensions: Sequence[Dimensions]
) -> dict[int, Slot]:
    """The slots of the values between steps that are in an arena, by operand of main."""
    slots: dict[int, Slot] = {}
    for operand, place in manager.layout.placements.items():
        element = Element(prepared.type_of(operand), prepared.element_sizes)
        size = element.size(dimensions[operand])
        slots[operand] = HostSlot(
            element, dimensions[operand], MemoryRange(memory.pools[place.kind], place.offset, size)
        )
    return slots


def resident_slots(
    prepared: PreparedPlan, values: PassedValues, dimensions: Sequence[Dimensions]
) -> dict[int, ResidentSlot]:
    """The slots of the values between steps that stay on a device, by operand of main."""
    return {
        operand: ResidentSlot(
            Element(prepared.type_of(operand), prepared.element_sizes),
            dimensions[operand],
            partial(allocate_kept, prepared, operand, dimensions[operand]),
        )
        for operand, value in values.items()
        if value.is_kept
    }


def _in_memory(element: Element, stated: Dimensions, memory: BoundMemory, expected: Dimensions, name: str) -> Slot:
    if memory.device:
        return DeviceSlot(element, stated, memory, name, expected)
    pool = memory.pool
    if isinstance(pool, int):
        general_failure(f"memory of the host is token {pool}, expected memory that can be mapped")
    size = element.size(stated) or element.size(expected) or validate_pool(pool, "the host's memory")
    return HostSlot(element, stated, MemoryRange(pool, 0, size), name)


class UsedMemory:
    """The memory of domains that a context reads and writes: checked before a run, and noted after it."""

    def __init__(
        self,
        inputs: Mapping[int, TensorBinding],
        outputs: Mapping[int, TensorBinding],
        dimensions: Sequence[Dimensions],
    ) -> None:
        self._read = [(b.memory, b.dimensions or dimensions[n]) for n, b in inputs.items() if b.memory is not None]
        self._written = [(b.name, b.memory, dimensions[n]) for n, b in outputs.items() if b.memory is not None]
        self.is_empty = not (self._read or self._written)

    def lend(self) -> None:
        """Have runs write it that nobody tells of here."""
        for _, memory, _ in self._written:
            memory.lend()

    def require_usable(self) -> None:
        """Check it before any device is called. Raises as ``BoundMemory.require_readable`` and ``require_alive`` do."""
        for memory, dimensions in self._read:
            memory.require_readable(dimensions)
        for _, memory, _ in self._written:
            memory.require_alive()

    def note_written(self, reported: Mapping[str, Dimensions]) -> None:
        """Note the end of a run that succeeded; ``reported`` has the dimensions that devices reported, by output."""
        for name, memory, dimensions in self._written:
            memory.written(reported.get(name, dimensions), True)

    def note_failed(self) -> None:
        """Note the end of a run that failed: its outputs are uninitialised."""
        for _, memory, _ in self._written:
            memory.written((), False)
