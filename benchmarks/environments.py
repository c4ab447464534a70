"""Virtual environments for programs whose pinned versions conflict with nnhal's."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

_VARIABLE = "NNHAL_PEERS"


class InstallationError(ValueError):
    """An environment that cannot be made. The message says why."""


def environments_directory() -> Path:
    """Return the directory of the environments: NNHAL_PEERS, or one in the user's cache."""
    return Path(os.environ.get(_VARIABLE) or Path.home() / ".cache" / "nnhal" / "peers")


def interpreter(directory: Path, requirements: Sequence[str], modules: Sequence[str]) -> Path:
    """Return the interpreter of an environment in which ``modules`` can be imported, made if there is none.

    Raises InstallationError.
    """
    python = directory / "bin" / "python"
    if not _can_import(python, modules):
        try:
            venv.create(directory, with_pip=True)
            command = [str(python), "-m", "pip", "install", "--quiet", *requirements]
            subprocess.run(command, check=True, stdout=sys.stderr)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            words = f"{', '.join(requirements)} cannot be installed in {directory}: {error}"
            raise InstallationError(words) from error
        if not _can_import(python, modules):
            raise InstallationError(f"{', '.join(requirements)} in {directory}: {modules[0]} cannot be imported")
    return python


def _can_import(python: Path, modules: Sequence[str]) -> bool:
    """Return whether all modules are installed."""
    if not python.exists():
        return False
    words = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {tuple(modules)!r})))"
    return subprocess.run([python, "-c", words], check=False).returncode == 0
