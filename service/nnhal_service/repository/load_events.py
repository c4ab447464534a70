"""Notes of models that are loaded, unloaded, and cannot be loaded, made from what the repository says of them."""

from __future__ import annotations

import threading
from typing import Protocol

from nnhal_service.repository.entry import ModelIndex, ModelState
from nnhal_service.runtime.devices.notes import Note


class ModelStates(Protocol):
    """The repository, for the states of its models."""

    def known(self, name: str) -> list[ModelIndex]:
        """Return the index of one model."""

    def serials(self, name: str) -> frozenset[int]:
        """Return the serials of the versions that are ready."""


class ModelNotes:
    """Notes changes at each look. Safe to use from several threads."""

    def __init__(self, states: ModelStates, note: Note) -> None:
        self._states = states
        self._note = note
        self._lock = threading.Lock()
        self._serials: dict[str, frozenset[int]] = {}
        self._failures: dict[str, str] = {}

    def look(self, name: str) -> None:
        """Note what has become of a model since the last look."""
        with self._lock:
            rows, serials = self._states.known(name), self._states.serials(name)
            before, self._serials[name] = self._serials.get(name, frozenset()), serials
            failure = next((row.reason for row in rows if _has_failed(row)), "")
            noted, self._failures[name] = self._failures.get(name, ""), failure
        if failure and failure != noted:
            self._note("failed", name, f"model {name} cannot be loaded: {failure}")
        ready = ", ".join(row.version for row in rows if row.state is ModelState.READY)
        if serials - before:
            self._note("loaded", name, f"model {name} is loaded, version {ready}")
        elif before - serials:
            left = f"; version {ready} serves" if ready else ""
            self._note("unloaded", name, f"model {name} is unloaded{left}")


def _has_failed(row: ModelIndex) -> bool:
    """Return whether a version could not be loaded; one that serves has the reason of the last load that failed."""
    if row.state is ModelState.READY:
        return bool(row.reason)
    return row.state is ModelState.UNAVAILABLE and row.reason not in ("", "unloaded", "not loaded")
