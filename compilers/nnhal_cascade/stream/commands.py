"""The commands, and a stream of them.

Tensors and parts are named by their index in the graph. A tensor has one buffer at a time, so commands that use it need
not name its buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.plan import WeightsIn


class BeginPlan(NamedTuple):
    """The pipeline is empty: each part of the plan fills it once."""

    plan: int
    """An index into the proposal's plans."""


class AllocateTensor(NamedTuple):
    """A tensor has a buffer from now on."""

    tensor: int
    region: str
    address: int
    """Bytes from the start of the region."""
    extents: Shape
    """Elements. The buffer rolls along each axis on which it is shorter than the tensor."""


class AllocateConstants(NamedTuple):
    """A part has room for its constants from now on."""

    part: int
    region: str
    address: int
    """Bytes from the start of the region."""
    bytes: int
    """The bytes of one slot."""
    slots: int
    """1 if the constants are resident, 2 if they are double buffered."""


class LoadInput(NamedTuple):
    """The client writes an input of the network into its buffer."""

    tensor: int


class StoreOutput(NamedTuple):
    """The client reads an output of the network from its buffer."""

    tensor: int


class CopyConstants(NamedTuple):
    """Constants are copied from where they lie at rest to a slot of their buffer.

    Copies run one after the other, beside the stripes that follow. A stripe waits for the copy to the slot that it
    reads.
    """

    part: int
    channels: Interval
    """The channels of the part's output."""
    slot: int


class RunStripe(NamedTuple):
    """A part computes a box of its output."""

    part: int
    output: Box
    inputs: tuple[Box, ...]
    """For each of the part's inputs, without its padding."""
    weights: WeightsIn
    """Where the part's constants are."""
    slot: int = 0
    """The slot that holds them, if they are double buffered."""


class Roll(NamedTuple):
    """Elements of a tensor are dead: nothing reads them any more."""

    tensor: int
    axis: Axis
    dead: Interval


class ReleaseTensor(NamedTuple):
    """A tensor has no buffer any more."""

    tensor: int


class ReleaseConstants(NamedTuple):
    """A part has no room for its constants any more."""

    part: int


Command = (
    BeginPlan
    | AllocateTensor
    | AllocateConstants
    | LoadInput
    | StoreOutput
    | CopyConstants
    | RunStripe
    | Roll
    | ReleaseTensor
    | ReleaseConstants
)


class TensorSymbol(NamedTuple):
    """Name and dimensions of a tensor in the stream, for people who read it."""

    name: str
    shape: Shape
    element_bytes: int


class PartSymbol(NamedTuple):
    """Name and operations of a part in the stream, for people who read it."""

    name: str
    output: int
    """The index of the tensor that it writes."""
    inputs: tuple[int, ...]
    """The indexes of the tensors that it reads."""
    channel_bytes: int
    """Bytes of constants for one channel of its output."""


@dataclass(frozen=True, slots=True)
class CommandStream:
    """Everything that a device needs to run a model whose graph it knows."""

    commands: tuple[Command, ...]
    digest: bytes
    """The digest of the graph that the commands are for: see ``graph_digest``."""
    arenas: tuple[tuple[str, int], ...]
    """Regions in which the commands allocate, and how many bytes of each they use."""
    tensors: tuple[TensorSymbol, ...] = ()
    parts: tuple[PartSymbol, ...] = ()


DIGEST_BYTES = 16


def graph_digest(graph: CascaderGraph) -> bytes:
    """Return a digest of a graph's parts and tensors. It does not cover the values of constants."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for tensor in graph.tensors:
        digest.update(repr(tensor).encode())
    for part in graph.parts:
        inputs = [each.tensor for each in part.inputs]
        what = (part.kind, part.operations, inputs, part.output, part.kernel, part.constants, part.activation)
        digest.update(repr((*what, part.operation, part.passes)).encode())
    return digest.digest()
