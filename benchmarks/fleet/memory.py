"""The models that a host has loaded, within its memory: the least recently used makes room for another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence


class LoadedModels:
    """What one host has loaded. A model with requests under way is not unloaded."""

    def __init__(self, memory_bytes: int, size_of: Callable[[int], int], loaded: Sequence[int]) -> None:
        """``loaded`` is there to begin with, the first to be unloaded first. Raises ValueError if it does not fit."""
        self._room = memory_bytes - sum(map(size_of, loaded))
        if self._room < 0:
            raise ValueError(f"models of {memory_bytes - self._room:,} bytes on a host that has {memory_bytes:,}")
        self._size_of = size_of
        self._in_use: OrderedDict[int, int] = OrderedDict.fromkeys(loaded, 0)

    @property
    def free_bytes(self) -> int:
        """Memory that no model has."""
        return self._room

    def use(self, model: int) -> bool:
        """Begin a request if the model is loaded; return whether it is."""
        count = self._in_use.get(model)
        if count is None:
            return False
        self._in_use[model] = count + 1
        self._in_use.move_to_end(model)
        return True

    def release(self, model: int) -> None:
        """End a request."""
        self._in_use[model] -= 1

    def make_room(self, model: int) -> bool:
        """Unload idle models until another fits, and take its memory; return False and unload none if it cannot fit."""
        size, found, idle = self._size_of(model), self._room, []
        for other, count in self._in_use.items():
            if found >= size:
                break
            if count == 0:
                idle.append(other)
                found += self._size_of(other)
        if found < size:
            return False
        for other in idle:
            del self._in_use[other]
        self._room = found - size
        return True

    def add(self, model: int) -> None:
        """A model for which there was made room is loaded now."""
        self._in_use[model] = 0
