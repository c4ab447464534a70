"""Build the provider's library from src/ and the core of the SDK: ``python build_library.py``."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = HERE / "nnhal_ort" / "libnnhal_ort.so"
_CORE = next(folder for folder in (HERE / "core", HERE.parents[1] / "sdk/cpp/core") if folder.is_dir())
"""The core of the SDK: in a source distribution beside this file, else in its place in the repository."""


def build(library: Path = LIBRARY, objects: Path | None = None) -> Path:
    """Build the library, with what was compiled in ``objects``, and return its path. Raises RuntimeError, in words."""
    spec = importlib.util.spec_from_file_location("nnhal_core_build", _CORE / "build.py")
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    options = [f'-DNNHAL_ORT_VERSION="{version()}"']
    built: Path = core.build(library, HERE / "src", ["CreateEpFactories", "ReleaseEpFactory"], options, objects)
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
