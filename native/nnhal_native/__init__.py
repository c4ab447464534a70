"""nnhal_native: programs of NNAPI and TensorFlow Lite run unchanged over nnhal's devices (docs/doors.md)."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["NAMES", "library_path"]

NAMES = {"ndk": "libneuralnetworks.so", "tflite": "libnnhal_tflite.so", "litert": "libLiteRtGpuAccelerator.so"}
"""The libraries, by the names that ``nnhal native path`` takes."""


def library_path(name: str) -> Path:
    """Return the path of a library, one of NAMES, in the folder NNHAL_NATIVE_LIBRARIES or in this package.

    Raises FileNotFoundError if it was not built.
    """
    library = Path(os.environ.get("NNHAL_NATIVE_LIBRARIES", Path(__file__).parent)) / NAMES[name]
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: nnhal native build builds it, with g++ (apt-get install g++)")
    return library
