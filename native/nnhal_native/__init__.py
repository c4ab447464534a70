"""nnhal_native: programs for Android's NNAPI run unchanged over the devices of nnhal (docs/applications.md)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["NAMES", "library_path"]

NAMES = {"ndk": "libneuralnetworks.so"}
"""The libraries, by the names that ``nnhal native path`` takes."""


def library_path(name: str) -> Path:
    """Return the path of a library, one of NAMES. Raises FileNotFoundError if it was not built."""
    library = Path(__file__).with_name(NAMES[name])
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: nnhal native build builds it, with g++")
    return library
