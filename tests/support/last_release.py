"""The sources of the last release, from the history of this repository, for processes beside those of today."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST_RELEASE = "3758d2f38684f3f21ba98f28ab6fecebb4c3f798"
"""The commit of 0.1.0, which made proto/released.binpb.gz. A release sets it anew (CONTRIBUTING.md)."""
_ROOTS = ("hal", "hosting", "frontends", "compilers", "devices", "service", "client")


def import_path(folder: Path) -> str:
    """Write the sources into a folder, and return the PYTHONPATH of processes of them. Skips in a shallow clone."""
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        pytest.skip(f"no history, and so no {LAST_RELEASE[:8]}, the last release: git fetch --unshallow")
    got = _git("archive", LAST_RELEASE, *_ROOTS)
    assert got.returncode == 0, got.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(got.stdout)) as sources:
        sources.extractall(folder, filter="data")
    return os.pathsep.join(str(folder / root) for root in _ROOTS)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
