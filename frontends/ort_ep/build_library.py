"""Build the provider's library from src/ and the core of the SDK: ``python build_library.py``."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = HERE / "nnhal_ort" / "libnnhal_ort.so"


def build(library: Path = LIBRARY, objects: Path | None = None) -> Path:
    """Build the library, with what was compiled in ``objects``, and return its path. Raises RuntimeError, in words."""
    options = [f'-DNNHAL_ORT_VERSION="{version()}"']
    build_library = runpy.run_path(str(HERE / "core" / "build.py"))["build"]
    built: Path = build_library(library, HERE / "src", ["CreateEpFactories", "ReleaseEpFactory"], options, objects)
    return built


def version() -> str:
    """Return the distribution's version, of pyproject.toml."""
    found = re.search(r'^version = "(.+)"', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("pyproject.toml has no version")
    return found[1]


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as error:
        sys.exit(str(error))
