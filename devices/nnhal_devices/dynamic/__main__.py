"""Prints the folder of nnhal_backend.h, for a compiler: ``gcc -I "$(python -m nnhal_devices.dynamic)"``."""

from __future__ import annotations

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).parent)
