"""A virtual environment for each peer, since their pins conflict with one another and with nnhal's."""

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
"""Each peer's requirements, by the name of its module."""
_VARIABLE = "NNHAL_PEERS"


class PeerError(Exception):
    """A peer that cannot be installed or started. The message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer and the interpreter of its environment."""

    name: str
    python: Path


def environments_directory() -> Path:
    """Return the directory of the environments: NNHAL_PEERS, else in the user's cache."""
    return Path(os.environ.get(_VARIABLE) or Path.home() / ".cache" / "nnhal" / "peers")


def installed(name: str, directory: Path) -> Peer:
    """Return a peer, whose environment is created if it does not exist. Raises PeerError if it cannot be installed."""
    python = directory / name / "bin" / "python"
    if not _can_import(python, name):
        try:
            venv.create(directory / name, with_pip=True)
            command = [str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]]
            subprocess.run(command, check=True, stdout=sys.stderr)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise PeerError(f"{', '.join(REQUIREMENTS[name])} cannot be installed in {directory}: {error}") from error
        if not _can_import(python, name):
            raise PeerError(f"{name} is installed in {directory} and cannot be imported")
    return Peer(name, python)


def _can_import(python: Path, name: str) -> bool:
    """Return whether the environment has the module and ONNX Runtime."""
    if not python.exists():
        return False
    words = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ({name!r}, 'onnxruntime'))))"
    return subprocess.run([python, "-c", words], check=False).returncode == 0
