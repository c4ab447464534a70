"""What device buffers may be used for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BufferRole:
    """One use of a buffer: an input or output of a prepared model.

    ``model_index`` refers to the prepared models that the buffer is allocated for. ``probability``, above 0 and at most
    1, says how likely this use is.
    """

    model_index: int
    io_index: int
    probability: float = 1.0
