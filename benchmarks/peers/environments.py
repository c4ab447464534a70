"""A virtual environment for each peer: their pinned versions conflict with each other and with nnhal's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import InstallationError, interpreter

REQUIREMENTS = {
    "pytriton": ("nvidia-pytriton==0.7.0", "onnxruntime>=1.31,<2"),
    "mlserver": ("mlserver==1.7.1", "onnxruntime>=1.31,<2"),
    "kserve": ("kserve==0.21.0", "onnxruntime>=1.31,<2"),
}
"""The requirements of each peer, by the name of its module."""
_VARIABLE = "NNHAL_PEERS"


class PeerError(Exception):
    """A peer that cannot be installed or started. The message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer and the interpreter of its environment."""

    name: str
    python: Path


def environments_directory() -> Path:
    """The directory of the environments: NNHAL_PEERS, or one in the user's cache."""
    return Path(os.environ.get(_VARIABLE) or Path.home() / ".cache" / "nnhal" / "peers")


def installed(name: str, directory: Path) -> Peer:
    """A peer's environment, made if there is none. Raises PeerError."""
    try:
        return Peer(name, interpreter(directory / name, REQUIREMENTS[name], (name, "onnxruntime")))
    except InstallationError as error:
        raise PeerError(str(error)) from error
