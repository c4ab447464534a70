"""Tables whose values are imported when they are first used, so that a start imports none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class LazyTable(Mapping[Key, Value], Generic[Key, Value]):
    """A table of what modules of one package hold. Asking whether a key is in it imports nothing."""

    def __init__(self, package: str, targets: Mapping[Key, str]) -> None:
        """``targets`` name, by key, a module of the package, a colon, and what the module holds."""
        self._package = package
        self._targets = targets
        self._values: dict[Key, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        found = self._values.get(key)
        if found is None:
            module, _, attribute = self._targets[key].partition(":")
            found = self._values[key] = getattr(import_module(f"{self._package}.{module}"), attribute)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._targets

    def __iter__(self) -> Iterator[Key]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)
