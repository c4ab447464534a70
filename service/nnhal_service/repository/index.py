"""What the repository says of its models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ModelState(Enum):
    """The states of a version of a model, by the protocol's names."""

    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """A version of a model. ``version`` is empty where none is known; ``reason`` says why it does not serve, or why a
    newer one does not."""

    name: str
    version: str
    state: ModelState
    reason: str = ""
