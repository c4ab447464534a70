"""What may be said of a repository."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ALL = "*"


class ControlMode(Enum):
    """Who decides which models are loaded, as Triton names it.

    All when the process starts, and no more; what clients ask for; or whatever lies in the repositories at any time.
    """

    NONE = "none"
    EXPLICIT = "explicit"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class RepositoryOptions:
    """``load_models`` are loaded at the start in mode EXPLICIT, ``("*",)`` for all.

    In ``strict`` mode the repository is ready only when every model is that it was to load. With ``exit_on_error``
    starting fails where one cannot be loaded. ``config_name`` is that of files in ``configs``, which go before
    ``config.pbtxt``. ``load_threads`` models are loaded at a time. A version that is unloaded or replaced has
    ``drain_seconds`` to finish. ``max_models`` versions of models may be loaded, 0 for any number.
    """

    paths: tuple[Path, ...] = ()
    mode: ControlMode = ControlMode.NONE
    load_models: tuple[str, ...] = ()
    poll_seconds: float = 15.0
    strict: bool = True
    exit_on_error: bool = True
    config_name: str = ""
    load_threads: int = 4
    drain_seconds: float = 30.0
    max_models: int = 0

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
