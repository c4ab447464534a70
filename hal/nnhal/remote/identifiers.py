"""Identifier tokens for memory on a burst, so that a device maps each memory once."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Sequence

from nnhal.descriptor import Descriptor
from nnhal.types import HardwareBuffer, MappableFile, Memory, RequestMemoryPool

NO_IDENTITY = -1
_Key = tuple[tuple[int, ...], tuple[weakref.ref[Descriptor], ...]]


class MemoryIdentifiers:
    """The identifier tokens of one burst, in ascending order. Memory keeps its token as long as its descriptors live.

    ``lost`` holds the keys of memory that is gone until its tokens are taken for release. Safe to use from several
    threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = itertools.count()
        self._tokens: dict[_Key, tuple[int, list[weakref.ref[Descriptor]]]] = {}
        self.lost: deque[_Key] = deque()

    def of(self, pools: Sequence[RequestMemoryPool]) -> list[int]:
        """Return one token for each pool. Device buffers have a token of their own, and get -1 here."""
        with self._lock:
            return [NO_IDENTITY if isinstance(pool, int) else self._of(pool) for pool in pools]

    def take_lost(self) -> list[int]:
        """Take the tokens of memory that is gone. Each token is returned once."""
        tokens = []
        with self._lock:
            while self.lost:  # a finaliser may append to it at any moment
                token, _ = self._tokens.pop(self.lost.popleft(), (NO_IDENTITY, []))
                if token != NO_IDENTITY:
                    tokens.append(token)
        return tokens

    def _of(self, memory: Memory) -> int:
        numbers, descriptors = _parts(memory)
        key = numbers, tuple(weakref.ref(descriptor) for descriptor in descriptors)
        known = self._tokens.get(key)
        if known is not None:
            return known[0]
        token, lost = next(self._next), self.lost
        self._tokens[key] = token, [weakref.ref(one, lambda _: lost.append(key)) for one in descriptors]
        return token


def _parts(memory: Memory) -> tuple[tuple[int, ...], tuple[Descriptor, ...]]:
    if isinstance(memory, HardwareBuffer):
        return memory.handle.ints, memory.handle.descriptors
    if isinstance(memory, MappableFile):
        return (memory.length, memory.prot, memory.offset), (memory.descriptor,)
    return (memory.size,), (memory.descriptor,)
