"""A budget for what a process copies of its clients' files: models, constants, compilations.

A file may be sparse, so that it costs its client nothing, and whoever reads it all of its length.
"""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Bytes
from nnhal.shares import Shares


class CopyBudget(Shares):
    """Bytes that clients share for copies. Safe to use from several threads."""

    def __init__(self, limit: int, setting: str) -> None:
        """``limit`` in bytes; ``setting`` is its name in refusals."""
        super().__init__(limit, "bytes", setting, leaves=8)

    def allocate(self, size: int, what: str) -> Bytes:
        """Return memory for a copy of ``what``, which is charged until its last view is gone.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if it does not fit.
        """
        client = self.take(size, what)
        try:
            memory = np.empty(size, np.uint8)
        except MemoryError:
            self.give_back(client, size)
            raise
        self.give_with(memory, client, size)
        return np.frombuffer(memory.data, np.uint8)
