"""The images of docker-compose.yml: from a registry's base if one can be reached, else from one that is made here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.testbed.compose import ROOT, ContainerCommandError, docker
from tests.testbed.engine import install

IMAGES = {"NNHAL_IMAGE": "nnhal:testbed", "NNHAL_CLIENT_IMAGE": "nnhal-client:testbed"}
"""The variables of docker-compose.yml that name images, and what the tests call theirs."""
DEFAULT_BASE = "python:3.11-slim"
OWN_BASE = "nnhal-base:bookworm"
_WHEELS = ROOT / "deploy/wheels"


def base_image() -> str:
    """Return the base image: NNHAL_BASE, or the default if it can be pulled, or one from Debian's archive.

    Raises NoEngineError if that takes packages which cannot be installed, and ContainerCommandError.
    """
    if named := os.environ.get("NNHAL_BASE"):
        return named
    for image in (DEFAULT_BASE, OWN_BASE):
        if _has(image):
            return image
    try:
        docker("pull", "--quiet", DEFAULT_BASE, timeout=300)
        return DEFAULT_BASE
    except (ContainerCommandError, subprocess.TimeoutExpired):
        if shutil.which("mmdebstrap") is None:
            install(["mmdebstrap"])
        _script("base.sh", OWN_BASE)
        return OWN_BASE


@contextmanager
def wheels() -> Iterator[None]:
    """Fetch what the images install, so that builds need no network; what was fetched here is removed afterwards."""
    if any(_WHEELS.glob("*.whl")):
        yield
        return
    try:
        _script("wheels.sh", sys.executable)
        yield
    finally:
        for wheel in _WHEELS.glob("*.whl"):
            wheel.unlink()


def remove_images() -> None:
    """Remove the images of the tests. What the engine keeps to build faster the next time stays."""
    for image in IMAGES.values():
        if _has(image):
            docker("image", "rm", image)


def _has(image: str) -> bool:
    try:
        docker("image", "inspect", image)
    except ContainerCommandError:
        return False
    return True


def _script(name: str, *arguments: str) -> None:
    """Run a script of deploy/. Raises ContainerCommandError."""
    done = subprocess.run([ROOT / "deploy" / name, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContainerCommandError(f"deploy/{name}: status {done.returncode}\n{done.stderr.strip()[-4000:]}")
