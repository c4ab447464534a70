"""Options of loading and planning a model: the options that ``Framework.load``, ``plan`` and ``load_model`` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from nnhal.types import Ashmem
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.tensors import ReservedDimensions, first_of, growing_to_wire, room_for

PartitionerName = Literal["least_time", "nnapi", "cpu_only"]
FallbackName = Literal["allow", "warn", "deny"]


class PlacementKeywords(TypedDict, total=False):
    """The fields of ``PlacementOptions``, but for the devices."""

    partitioner: PartitionerName
    fallback: FallbackName
    min_nodes_per_partition: int
    cache_token: bytes


class FileKeywords(PlacementKeywords, total=False):
    """The fields of ``FileOptions``, but for the devices."""

    relaxed: bool
    dimensions: Mapping[str, ReservedDimensions] | None
    states: Mapping[str, str] | None
    signature: str
    weights: Mapping[str, Ashmem] | None


@dataclass(frozen=True, kw_only=True)
class PlacementOptions:
    """Options of the plan of any model: see ``Framework.load``."""

    devices: Sequence[str] = ()
    pins: Mapping[str, str] | None = None
    partitioner: PartitionerName = "least_time"
    fallback: FallbackName = "allow"
    min_nodes_per_partition: int = 1
    cache_token: bytes = b""

    def request(self) -> wire.LoadModelRequest:
        """Return them as a request without a model. Raises ValueError for a range of an input that is no state."""
        return wire.LoadModelRequest(
            devices=self.devices,
            pins=pins_to_wire(self.pins),
            partitioner=wire.Partitioner.Value(f"PARTITIONER_{self.partitioner.upper()}"),
            fallback=wire.Fallback.Value(f"FALLBACK_{self.fallback.upper()}"),
            min_nodes_per_partition=self.min_nodes_per_partition,
            cache_token=self.cache_token,
        )


@dataclass(frozen=True, kw_only=True)
class FileOptions(PlacementOptions):
    """Options of the plan of a model file: see ``Framework.load``."""

    relaxed: bool = False
    dimensions: Mapping[str, ReservedDimensions] | None = None
    states: Mapping[str, str] | None = None
    signature: str = ""
    weights: Mapping[str, Ashmem] | None = None

    def request(self) -> wire.LoadModelRequest:
        request, dimensions, states = super().request(), self.dimensions or {}, self.states or {}
        request.relaxed, request.signature = self.relaxed, self.signature
        for name, given in dimensions.items():
            if name not in states and not all(isinstance(length, int) for length in given):
                raise ValueError(
                    f"got the range {given} for input {name!r}, expected one of states only: ``bind`` takes it"
                )
            room_for(given)  # which checks the ranges
            request.input_dimensions.add(name=name, dimensions=first_of(given))
        for before, after in states.items():
            request.states.add(input=before, output=after, growing=growing_to_wire(dimensions.get(before, ())))
        return request


def pins_to_wire(pins: Mapping[str, str] | None) -> list[wire.Pin]:
    """Return pins, by what they match, as messages have them."""
    return [wire.Pin(match=match, device=device) for match, device in (pins or {}).items()]
