"""The edges of a plan, by which values get from one device to another.

The strategies and the layers are Arm NN's. An edge is directly compatible if both of its ends are on one device, and an
export if the source can leave its result in a kind of memory that the destination imports. Otherwise it is a copy,
which the host of a device makes by staging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import lcm

from nnhal.remote import DeviceDescription
from nnhal.tensors import ALIGNMENT, ClientMemory
from nnhal.types import TensorHandleFactory, TransferCosts

ASHMEM = "ashmem"
HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"
MMAP_FD = "mmap_fd"
UNSEALED_FILE = "unsealed_file"
"""An mmap_fd pool in a tmpfs that may shrink, which a device uses in place only if it guards against that."""
ALLOCATED = (ASHMEM, HARDWARE_BUFFER_BLOB)
"""Kinds of memory that the framework allocates for values between steps, in the order of preference."""
DEVICE_BUFFER = "device_buffer"
"""A buffer that a device has allocated for values that stay on it."""
_ALL_KINDS = frozenset({ASHMEM, HARDWARE_BUFFER_BLOB, MMAP_FD, UNSEALED_FILE})


_FREE = TransferCosts(0.0, 0.0, 0.0, 0.0)


class EdgeStrategy(Enum):
    """Way of a value over an edge."""

    DIRECT_COMPATIBILITY = "DirectCompatibility"
    EXPORT_TO_TARGET = "ExportToTarget"
    COPY_TO_TARGET = "CopyToTarget"


class Layer(Enum):
    """The layer of an edge. FallbackImport is memory that the framework allocates for both sides, Kept a device's."""

    NONE = ""
    MEM_COPY = "MemCopy"
    MEM_IMPORT = "MemImport"
    FALLBACK_IMPORT = "FallbackImport"
    KEPT = "Kept"


@dataclass(frozen=True, slots=True)
class Side:
    """One end of an edge: a device, or the client's own memory, which imports and exports every kind."""

    name: str
    imports: frozenset[str] = _ALL_KINDS
    """Kinds of memory from which it reads in place."""
    exports: frozenset[str] = _ALL_KINDS
    """Kinds of memory into which it writes in place."""
    alignment: int = 1
    """Bytes."""
    is_asynchronous: bool = False
    """True if results are visible only after a sync."""
    needs_fallback_memory: bool = False
    """True if the framework allocates the memory that it imports."""
    costs: TransferCosts = _FREE
    can_be_wired: bool = False
    """True if its executions can be stages of wired chains."""
    relaxed_as_float16: bool = False
    """True if float32 values of relaxed models may pass as float16."""
    keeps: bool = False
    """True if values that only this device writes and reads stay in its own buffers."""

    @classmethod
    def of(cls, name: str, description: DeviceDescription) -> Side:
        """Return a device's side by its first tensor handle factory that imports; without one all values are copied."""
        importing = next((f for f in description.tensor_handle_factories if f.imports), None)
        keeping = next((f for f in description.tensor_handle_factories if f.keeps), None)
        factory = importing or keeping or TensorHandleFactory("")
        unsealed = frozenset({UNSEALED_FILE} if description.maps_files else ())
        return cls(
            name,
            factory.imports | (unsealed if MMAP_FD in factory.imports else frozenset()),
            factory.exports | (unsealed if MMAP_FD in factory.exports else frozenset()),
            factory.alignment,
            description.asynchronous,
            factory.fallback_import_memory_required,
            description.transfer_costs,
            description.can_be_wired,
            factory.relaxed_as_float16,
            keeping is not None,
        )


CLIENT = Side("client")


@dataclass(frozen=True, slots=True)
class Edge:
    """One use of a value."""

    source: str
    destination: str
    strategy: EdgeStrategy
    layer: Layer
    kind: str
    """The kind of memory that the value lies in."""
    bytes: int
    copied_out: int
    """Bytes that the source's host copies for this use."""
    copied_in: int
    """Bytes that the destination's host copies for this use."""
    alignment: int
    """Bytes."""
    sync: bool
    """True if the source has to make its results visible first."""
    reason: str
    """Why the edge has this strategy, in one sentence."""
    wire_up_bytes: int = 0
    """Those copied bytes that go over a network to the destination's host."""
    wire_down_bytes: int = 0
    """Those copied bytes that come over a network from the source's host."""

    @property
    def copied_bytes(self) -> int:
        """Bytes that are copied for this use."""
        return self.copied_out + self.copied_in


def connect(source: Side, destinations: Sequence[Side], size: int, kinds: Sequence[str] = ALLOCATED) -> list[Edge]:
    """Return the edges of a value of ``size`` bytes, one for each destination.

    The value lies in the kind of memory that takes the fewest copies, of ``kinds`` in the order of preference. If the
    source's host copies it, it does so once, which counts at the first edge. A DEVICE_BUFFER is the only kind given if
    the value was to stay on one device.
    """
    if DEVICE_BUFFER in kinds:
        return [_kept(source, destination, size) for destination in destinations]

    def copies(kind: str) -> int:
        return (kind not in source.exports) + sum(kind not in destination.imports for destination in destinations)

    kind = min(kinds, key=lambda kind: (copies(kind), kinds.index(kind)))
    return [_edge(source, destination, size, kind, number == 0) for number, destination in enumerate(destinations)]


def client_memory(edges: Iterable[Edge], sides: Iterable[Side]) -> ClientMemory:
    """Return the memory that inputs and outputs have by their ``edges``, aligned for all ``sides``: later plans may use
    any of them.
    """
    kinds = (edge.kind for edge in edges)
    return ClientMemory(next(kinds, ASHMEM), lcm(ALIGNMENT, *(side.alignment for side in sides)))


def client_kind(uses: Iterable[tuple[Side, Sequence[Side], int]]) -> str:
    """Return the kind of memory of which devices copy the least.

    Each of the ``uses`` of inputs and outputs has a source, destinations, and bytes, 0 if they are unknown.
    """
    needed = [(source, destinations, size or 1) for source, destinations, size in uses]

    def copied(kind: str) -> int:
        return sum(edge.copied_bytes for use in needed for edge in connect(*use, (kind,)))

    return min(ALLOCATED, key=copied)


def price_ns(edge: Edge, source: Side, destination: Side) -> float:
    """Return the modelled cost of an edge between two sides."""
    if edge.strategy is EdgeStrategy.DIRECT_COMPATIBILITY:
        return 0.0
    sync = source.costs.sync_ns if edge.sync else 0.0
    if edge.strategy is EdgeStrategy.EXPORT_TO_TARGET:
        return sync + destination.costs.import_ns
    copied_out = source.costs.copy_ns_per_byte * edge.copied_out
    return sync + copied_out + destination.costs.copy_ns_per_byte * edge.copied_in


def edge_ns(sides: Mapping[str, Side], is_fetched: bool = False) -> Callable[[str | None, str | None, int], float]:
    """Return the modelled cost of passing a value: (source, destination, bytes) -> ns. None is the client.

    If it ``is_fetched``, the value has come over a network for another reader, and need not come again. What a device
    keeps costs nothing as long as only that device reads it: then it is not fetched.
    """

    def cost(source: str | None, destination: str | None, size: int) -> float:
        first = CLIENT if source is None else sides[source]
        second = CLIENT if destination is None else sides[destination]
        if first is second and (first is CLIENT or (first.keeps and not is_fetched)):
            return 0.0
        (edge,) = connect(first, [second], size)
        if is_fetched and first.costs.is_wire:
            edge = replace(edge, copied_out=0)
        return price_ns(edge, first, second)

    return cost


def _kept(source: Side, destination: Side, size: int) -> Edge:
    """The edge of a value that is kept in a device's own buffer, unless another device has taken a step."""
    names = source.name, destination.name
    if source is destination:
        layer, memory = (Layer.KEPT, ", which keeps it in its own memory") if source.keeps else (Layer.NONE, "")
        reason = f"both ends are on {source.name}{memory}"
        return Edge(*names, EdgeStrategy.DIRECT_COMPATIBILITY, layer, DEVICE_BUFFER, size, 0, 0, 1, False, reason)
    reason = (
        "it was to stay on one device, and another has taken a step: the framework copied it through the host, from or "
        "to the device's buffer, which the device's usage counts"
    )
    sync = source.is_asynchronous
    return Edge(*names, EdgeStrategy.COPY_TO_TARGET, Layer.MEM_COPY, DEVICE_BUFFER, size, 0, 0, 1, sync, reason)


def _edge(source: Side, destination: Side, size: int, kind: str, is_first: bool) -> Edge:
    names = source.name, destination.name
    at_source, at_destination = kind not in source.exports, kind not in destination.imports
    if source is destination and not (at_source or at_destination):
        reason = f"both ends are on {source.name}"
        return Edge(
            *names, EdgeStrategy.DIRECT_COMPATIBILITY, Layer.NONE, kind, size, 0, 0, source.alignment, False, reason
        )
    alignment = lcm(1 if at_source else source.alignment, 1 if at_destination else destination.alignment)
    sync = source.is_asynchronous
    if not at_source and not at_destination:
        ours = source.needs_fallback_memory and destination is not CLIENT
        layer = Layer.FALLBACK_IMPORT if ours else Layer.MEM_IMPORT
        reason = f"{source.name} leaves it in {kind}, {destination.name} imports that{_aligned(source, destination)}"
        return Edge(*names, EdgeStrategy.EXPORT_TO_TARGET, layer, kind, size, 0, 0, alignment, sync, reason)
    once = "" if is_first else ", which it copies once for all readers"
    refusals = [f"{_leaves(source)}{once}"] if at_source else []
    refusals += [_takes(destination)] if at_destination else []
    reason = f"it lies in {kind}, and {' and '.join(refusals)}"
    copied_out, copied_in = size * (at_source and is_first), size * at_destination
    return Edge(
        *names,
        EdgeStrategy.COPY_TO_TARGET,
        Layer.MEM_COPY,
        kind,
        size,
        copied_out,
        copied_in,
        alignment,
        sync,
        reason,
        copied_in * destination.costs.is_wire,
        copied_out * source.costs.is_wire,
    )


def _leaves(source: Side) -> str:
    if source.costs.is_wire:
        return f"{source.name} sends its results over a network"
    return f"{source.name} leaves results in {_listed(source.exports)} only"


def _takes(destination: Side) -> str:
    if destination.costs.is_wire:
        return f"{destination.name} takes its inputs over a network"
    return f"{destination.name} imports {_listed(destination.imports)} only"


def _aligned(source: Side, destination: Side) -> str:
    common = lcm(source.alignment, destination.alignment)
    if common in (source.alignment, destination.alignment):
        return f" at multiples of {common}" if common > 1 else ""
    return f" at multiples of {common}, common to {source.alignment} and {destination.alignment}"


def _listed(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds)) or "nothing"
