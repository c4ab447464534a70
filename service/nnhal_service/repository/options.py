"""The options of a repository."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ALL = "*"


class ControlMode(Enum):
    """Rule that decides which models are loaded, by Triton's names."""

    NONE = "none"
    """All models are loaded when the process starts, and nothing changes later."""
    EXPLICIT = "explicit"
    """Clients load and unload models."""
    POLL = "poll"
    """Models are loaded and unloaded as they appear in the repositories and vanish from them."""


@dataclass(frozen=True, slots=True)
class RepositoryOptions:
    """Options of a repository: how it finds, loads and unloads its models."""

    paths: tuple[Path, ...] = ()
    """The folders in which models lie."""
    mode: ControlMode = ControlMode.NONE
    """What decides which models are loaded."""
    load_models: tuple[str, ...] = ()
    """The models to load at the start in mode EXPLICIT; ``("*",)`` for all."""
    poll_seconds: float = 15.0
    """The pause between two looks at the folders in mode POLL."""
    strict: bool = True
    """The repository is ready only if no model that it was to load has failed."""
    exit_on_error: bool = True
    """Starting fails if a model cannot be loaded."""
    config_name: str = ""
    """The name of the file in ``configs`` that takes precedence over ``config.pbtxt``."""
    load_threads: int = 4
    """How many models are loaded at a time."""
    drain_seconds: float = 30.0
    """The time that a version that is unloaded or replaced may take to finish its requests."""
    max_models: int = 0
    """How many versions of models may be loaded; 0 for any number."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.load_models and self.mode != ControlMode.EXPLICIT:
            raise ValueError(f"models to load are named, expected control mode explicit, got {self.mode.value}")
        if ALL in self.load_models and len(self.load_models) > 1:
            raise ValueError(f"models to load are {', '.join(self.load_models)}: expected names, or {ALL!r} alone")
        if self.poll_seconds <= 0 or self.drain_seconds < 0 or self.load_threads < 1:
            raise ValueError(
                f"poll_seconds {self.poll_seconds}, drain_seconds {self.drain_seconds} and load_threads "
                f"{self.load_threads}: expected above 0, 0 or more, and 1 or more"
            )
        for path in self.paths:
            if not path.is_dir():
                raise ValueError(f"model repository {path}: expected a folder")
