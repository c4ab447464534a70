"""Counters of several processes for the limits that they share."""

from __future__ import annotations

from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.types import Ashmem
from nnhal_hosting.shared_numbers import SharedNumber

_INTEGER_BYTES = 8


class NumberTable:
    """Numbers in memory that processes share: each has a row, and each process a column of its own.

    A process that adds its part before it reads the total, and takes it back if that is too much, never lets the total
    exceed a limit, without a lock between processes.
    """

    def __init__(self, memory: Ashmem, columns: int) -> None:
        pool = open_pool(memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError("ashmem is mapped")
        self.memory = memory
        self._columns = columns
        self._numbers = pool.view(0, memory.size).data.cast("q")

    @classmethod
    def create(cls, rows: int, columns: int) -> NumberTable:
        """A table of zeros."""
        return cls(create_ashmem(rows * columns * _INTEGER_BYTES, "nnhal-front-counts"), columns)

    def number(self, row: int, column: int) -> SharedNumber:
        """The number of a row, for the process with a column."""
        return SharedNumber(self._numbers[row * self._columns : (row + 1) * self._columns], column)

    def clear(self, column: int) -> None:
        """Forget the parts of a process that has ended."""
        for index in range(column, len(self._numbers), self._columns):
            self._numbers[index] = 0
