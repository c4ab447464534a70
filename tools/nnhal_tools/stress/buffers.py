"""Prepared models, and device buffers with their expected content."""

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
    """A device buffer, with what is known of its content."""

    remote: RemoteBuffer
    """The buffer on the device."""
    code: int
    """Its operand type."""
    dimensions: Dimensions
    """Its dimensions; 0 is unknown."""
    roles: Mapping[tuple[PreparedSpecimen, int], None]
    """Prepared models, each with the position of an input, or of the output."""
    content: Array | None = None
    """What it holds; None if it is uninitialised."""
    doubt: bool = False
    """Whether it may be uninitialised instead, since a call that would write it was refused."""
    wild: bool = False
    """Whether nothing is known of its content."""
    users: int = 0
    """Launches that use it and have not been settled."""
    raced: bool = False
    """Whether it was written while a launch used it."""
    released: bool = False
    """Whether it was released."""

    def has_role(self, prepared: PreparedSpecimen, position: int) -> bool:
        """True if it was allocated for this input or output of a prepared model."""
        return (prepared, position) in self.roles

    def readable(self) -> Statuses:
        """The statuses that this buffer allows for an execution that reads it."""
        if self.wild or self.users:
            return ANY
        if self.content is None:
            return FAILURE
        return OK | FAILURE if self.doubt else OK

    def became(self, content: Array) -> None:
        """Note that it was written."""
        self.content, self.doubt, self.wild = content, False, False

    def refused(self) -> None:
        """Note that a call that would write it was refused: it is unchanged or uninitialised."""
        self.doubt = True

    def spoiled(self) -> None:
        """Note that a call that would write it has failed."""
        self.content, self.doubt, self.wild = None, False, False

    def shape(self, size: int) -> Dimensions:
        """Its dimensions, with ``size`` in place of unknown ones."""
        return tuple(axis or size for axis in self.dimensions)

    @property
    def is_open(self) -> bool:
        """True if it has unknown dimensions."""
        return 0 in self.dimensions

    def array(self, data: bytes | Array, dimensions: Dimensions) -> Array:
        """Bytes as an array of its type."""
        return np.frombuffer(bytes(data), ELEMENT_TYPES[self.code]).reshape(dimensions)


@dataclass(frozen=True)
class Users:
    """The buffers that a launch uses, until it is settled."""

    buffers: tuple[HeldBuffer, ...] = ()

    def begin(self) -> None:
        """Note that the launch was accepted."""
        for buffer in self.buffers:
            buffer.users += 1

    def end(self) -> None:
        """Note that the launch has ended. A buffer that was written meanwhile has unknown content."""
        for buffer in self.buffers:
            buffer.users -= 1
            if buffer.raced and not buffer.users:
                buffer.wild, buffer.raced = True, False
