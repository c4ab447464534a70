"""Build the provider's library from src/ and the core of the SDK: ``python build_library.py``.

``CXX`` is the compiler, g++ unless it says otherwise; what was compiled before and has not changed is kept.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = HERE / "nnhal_ort" / "libnnhal_ort.so"
CORE = next(folder for folder in (HERE / "core", HERE.parents[1] / "sdk/cpp/core") if folder.is_dir())
"""The core of the SDK: in a source distribution beside this file, else in its place in the repository."""
_COMPILE = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"]
# ONNX Runtime closes the library when it is unregistered, which sessions may survive.
_LINK = ["-shared", "-pthread", "-Wl,-z,nodelete", "-Wl,-z,defs", "-static-libstdc++", "-static-libgcc"]


class BuildError(RuntimeError):
    """The library cannot be built, in words."""


def build(library: Path = LIBRARY, objects: Path | None = None) -> Path:
    """Build the library, with what was compiled in ``objects``, and return its path. Raises BuildError."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"the execution provider is C++17, and there is no {compiler[0]}: apt-get install g++")
    if objects is None:
        with tempfile.TemporaryDirectory(prefix="nnhal-ort-") as folder:
            return build(library, Path(folder))
    objects.mkdir(parents=True, exist_ok=True)
    sources = sorted([*CORE.glob("*.cpp"), *(HERE / "src").glob("*.cpp")])
    headers = max(path.stat().st_mtime for path in [*CORE.rglob("*.h"), *(HERE / "src").glob("*.h")])

    def compiled(source: Path) -> Path:
        target = objects / f"{source.parent.name}_{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < max(headers, source.stat().st_mtime):
            _run([*compiler, *_COMPILE, f'-DNNHAL_ORT_VERSION="{version()}"', f"-I{CORE}", "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compiled, sources))
    # Another process may have the old one mapped: it keeps that.
    fresh = library.with_suffix(f".{os.getpid()}")
    _run([*compiler, *_LINK, *made, "-o", fresh])
    fresh.replace(library)
    return library


def version() -> str:
    """Return the distribution's version, of pyproject.toml."""
    found = re.search(r'^version = "(.+)"', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError("pyproject.toml has no version")
    return found[1]


def _run(command: Sequence[str | Path]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BuildError(f"{shlex.join(map(str, command))} failed:\n{ended.stderr}")


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as error:
        sys.exit(str(error))
