"""Build the libraries from their folders and the core of the SDK: ``python build_libraries.py [OUT]``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
PACKAGE = HERE / "nnhal_native"
LIBRARIES = {
    "libneuralnetworks.so": ("ndk", ["ANeuralNetworks*"]),
    "libnnhal_tflite.so": ("delegate", ["tflite_plugin_*", "LiteRtAcceleratorImpl"]),
}
"""The folder of each library's sources, and what it exports."""
ALIASES = {"libLiteRtGpuAccelerator.so": "libnnhal_tflite.so"}
"""Other names by which programs look for a library."""


def build(out: Path = PACKAGE, objects: Path | None = None) -> list[Path]:
    """Build all of them in ``out``, with what was compiled in ``objects``. Raises RuntimeError, in words."""
    core = _core()
    built: list[Path] = []
    for name, (folder, exported) in LIBRARIES.items():
        built.append(core.build(out / name, HERE / folder, exported, objects=objects and objects / folder))
    for alias, name in ALIASES.items():
        # A wheel has no links. Of those who have mapped the old one nobody sees it change.
        fresh = out / f"{alias}.{os.getpid()}"
        shutil.copy(out / name, fresh)
        built.append(fresh.replace(out / alias))
    return built


def _core() -> ModuleType:
    """What builds with the core: in a source distribution beside this file, else in its place in the repository."""
    folder = next(folder for folder in (HERE / "core", HERE.parent / "sdk/cpp/core") if folder.is_dir())
    spec = importlib.util.spec_from_file_location("nnhal_core_build", folder / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    try:
        print(*build(*map(Path, sys.argv[1:2])), sep="\n")
    except RuntimeError as error:
        sys.exit(str(error))
