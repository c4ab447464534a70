"""A virtual environment for each peer: their pinned versions conflict with each other and with nnhal's."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

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
    python = directory / name / "bin" / "python"
    if not _can_import(python, name):
        try:
            venv.create(directory / name, with_pip=True)
            command = [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]]
            subprocess.run(command, check=True, stdout=sys.stderr)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise PeerError(f"{', '.join(REQUIREMENTS[name])} cannot be installed in {directory}: {error}") from error
        if not _can_import(python, name):
            raise PeerError(f"{name} is installed in {directory}, but cannot be imported")
    return Peer(name, python)


def _can_import(python: Path, name: str) -> bool:
    """Whether the module and ONNX Runtime are installed."""
    if not python.exists():
        return False
    words = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ({name!r}, 'onnxruntime'))))"
    return subprocess.run([python, "-c", words], check=False).returncode == 0
