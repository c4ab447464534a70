"""Device buffers and what must be in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.remote import RemoteBuffer, RemotePreparedModel
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_tools.stress.outcomes import ANY, FAILURE, OK, Statuses
from nnhal_tools.stress.specimens import Specimen


@dataclass(eq=False)
class PreparedSpecimen:
    """A prepared model, and what it computes."""

    specimen: Specimen
    remote: RemotePreparedModel
    released: bool = False


@dataclass(eq=False)
class HeldBuffer:
    """A device buffer with roles: prepared models, and the position of one of their inputs, or their output.

    ``content`` is what it holds, None while it is uninitialised. In ``doubt`` it may be uninitialised as well:
    something that was to write it has been refused. It is ``wild`` when nothing can be said of it. ``users`` are
    launches that have not been settled; ``raced`` says that it was written by something else meanwhile.
    """

    remote: RemoteBuffer
    code: int
    dimensions: Dimensions
    roles: Mapping[tuple[PreparedSpecimen, int], None]
    content: Array | None = None
    doubt: bool = False
    wild: bool = False
    users: int = 0
    raced: bool = False
    released: bool = False

    def has_role(self, prepared: PreparedSpecimen, position: int) -> bool:
        """Whether it was allocated for an input or the output of a prepared model."""
        return (prepared, position) in self.roles

    def readable(self) -> Statuses:
        """How a use as an input may end, as far as this buffer is concerned."""
        if self.wild or self.users:
            return ANY
        if self.content is None:
            return FAILURE
        return OK | FAILURE if self.doubt else OK

    def became(self, content: Array) -> None:
        """It was written."""
        self.content, self.doubt, self.wild = content, False, False

    def refused(self) -> None:
        """What was to write it was refused: it may be as it was, or uninitialised."""
        self.doubt = True

    def spoiled(self) -> None:
        """What was to write it has failed."""
        self.content, self.doubt, self.wild = None, False, False

    def shape(self, size: int) -> Dimensions:
        """Its dimensions, where open axes have a size."""
        return tuple(axis or size for axis in self.dimensions)

    @property
    def is_open(self) -> bool:
        """Whether its dimensions are not known beforehand."""
        return 0 in self.dimensions

    def array(self, data: bytes | Array, dimensions: Dimensions) -> Array:
        """Bytes as one of its values."""
        return np.frombuffer(bytes(data), ELEMENT_TYPES[self.code]).reshape(dimensions)


@dataclass(frozen=True)
class Users:
    """The buffers that a launch uses, until it is settled."""

    buffers: tuple[HeldBuffer, ...] = ()

    def begin(self) -> None:
        """The launch has been accepted."""
        for buffer in self.buffers:
            buffer.users += 1

    def end(self) -> None:
        """The launch has ended, and what it has done has been noted. What was used meanwhile may hold anything."""
        for buffer in self.buffers:
            buffer.users -= 1
            if buffer.raced and not buffer.users:
                buffer.wild, buffer.raced = True, False
