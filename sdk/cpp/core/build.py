"""Build a shared library from a folder of sources and this core, with g++ alone.

``CXX`` is the compiler, g++ unless it says otherwise; what was compiled before and has not changed is kept, in the
folder ``NNHAL_OBJECTS`` if the builder names none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORE = Path(__file__).parent
_COMPILE = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread"]
# Programs may close the library while its threads run: it stays. The language's own library is in it, for it alone.
_LINK = ["-shared", "-pthread", "-Wl,-z,nodelete", "-Wl,-z,defs", "-static-libstdc++", "-static-libgcc"]


class BuildError(RuntimeError):
    """The library cannot be built, in words."""


def build(
    library: Path, sources: Path, exported: Sequence[str], options: Sequence[str] = (), objects: Path | None = None
) -> Path:
    """Build the library, which exports these symbols alone, with what was compiled in ``objects``. Return its path.

    ``options`` are for the compiler, of the library's own sources. Libraries that share ``objects`` compile the core
    once. Raises BuildError.
    """
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"{library.name} is C++17, and there is no {compiler[0]}: apt-get install g++")
    if objects is None and (kept := os.environ.get("NNHAL_OBJECTS")):
        objects = Path(kept)
    if objects is None:
        with tempfile.TemporaryDirectory(prefix="nnhal-build-") as folder:
            return build(library, sources, exported, options, Path(folder))
    objects.mkdir(parents=True, exist_ok=True)
    headers = {
        folder: max((path.stat().st_mtime for path in folder.rglob("*.h")), default=0.0) for folder in (CORE, sources)
    }

    def compiled(source: Path) -> Path:
        own = source.parent == sources
        target = objects / f"{source.parent.name}_{source.stem}.o"
        newest = max(source.stat().st_mtime, headers[CORE], headers[sources] if own else 0.0)
        if not target.exists() or target.stat().st_mtime < newest:
            _run([*compiler, *_COMPILE, *(options if own else ()), f"-I{CORE}", "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compiled, sorted([*CORE.glob("*.cpp"), *sources.glob("*.cpp")])))
    version = objects / f"{library.name}.map"
    version.write_text(f"{{ global: {' '.join(f'{name};' for name in exported)} local: *; }};\n")
    library.parent.mkdir(parents=True, exist_ok=True)
    fresh = library.with_suffix(f".{os.getpid()}")  # another process may have the old one mapped: it keeps that
    _run([*compiler, *_LINK, f"-Wl,-soname,{library.name}", f"-Wl,--version-script={version}", *made, "-o", fresh])
    fresh.replace(library)
    return library


def _run(command: Sequence[str | Path]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise BuildError(f"{shlex.join(map(str, command))} failed:\n{ended.stderr}")
