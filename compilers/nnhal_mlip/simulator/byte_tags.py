"""Tags of each byte of a memory: where its value is from, what was there before, and which step wrote it."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import ELEMENT_KINDS, OcmView, Strided, TaskKind, TileTask
from nnhal_mlip.program.sizes import TYPE_BYTES
from nnhal_mlip.simulator.memory import pieces

NOBODY = 0
"""The origin of a byte that was never written."""


class ByteTags(NamedTuple):
    """Tags of some bytes: arrays of one shape."""

    origins: Array
    overwritten: Array
    """The origin that was there before, if it was another."""
    writers: Array
    """The step that wrote it in this run, whether it computed the byte or moved it."""

    def taken(self, bytes_: Strided) -> ByteTags:
        """Return the tags of pieces of a memory: [pieces, length]."""
        return ByteTags(*(pieces(tags, bytes_) for tags in self))

    def seen(self, view: OcmView) -> ByteTags:
        """Return the tags of a tensor in a memory: its shape, and the bytes of an element."""
        size = TYPE_BYTES[view.type]
        shape = (*view.shape, size)
        return ByteTags(
            *(
                np.ndarray(
                    shape,
                    tags.dtype,
                    tags.data,
                    view.address * tags.itemsize,
                    tuple(stride * tags.itemsize for stride in (*view.strides, 1)),
                )
                for tags in self
            )
        )

    def write(self, origins: Array, overwritten: Array, writer: int) -> None:
        """Write bytes of known origins, and what they had overwritten where they are from, in as many bytes or one."""
        origins, overwritten = (
            tags if tags.ndim == 0 else tags.reshape(self.origins.shape) for tags in (origins, overwritten)
        )
        before = np.where(self.origins != origins, self.origins, self.overwritten)
        self.overwritten[...] = np.where(overwritten != NOBODY, overwritten, before)
        self.origins[...] = origins
        self.writers[...] = writer

    def digest(self) -> int:
        """Return a number that differs if other steps wrote the bytes."""
        return crc32(self.writers.tobytes())


def unknown_bytes(size: int) -> ByteTags:
    """Return the tags of a memory that nobody has written."""
    return ByteTags(np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32))


def reached(view: OcmView, task: TileTask) -> OcmView:
    """Return the rows and columns of a task's input that lie between the first and the last under its window."""
    if task.kind in ELEMENT_KINDS or task.kind is TaskKind.MATMUL:
        return view
    shape, address, window = list(view.shape), view.address, task.window
    for axis in (1, 2):
        before = window.padding[axis - 1]
        places, kernel = task.output.shape[axis], window.kernel[axis - 1]
        reach = (places - 1) * window.strides[axis - 1] + (kernel - 1) * window.dilation[axis - 1] + 1
        first, last = max(-before, 0), min(reach - before, view.shape[axis])
        shape[axis] = max(last - first, 0)
        address += first * view.strides[axis]
    return view._replace(address=address, shape=(shape[0], shape[1], shape[2], shape[3]))
