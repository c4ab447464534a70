"""Build the libraries from their folders and the core of the SDK: ``python build_libraries.py [OUT]``."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

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
    if objects is None and "NNHAL_OBJECTS" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="nnhal-build-") as made:
            return build(out, Path(made))
    build_library = runpy.run_path(str(HERE / "core" / "build.py"))["build"]
    built: list[Path] = []
    for name, (folder, exported) in LIBRARIES.items():
        built.append(build_library(out / name, HERE / folder, exported, objects=objects))
    for alias, name in ALIASES.items():
        # A wheel has no links. Of those who have mapped the old one nobody sees it change.
        fresh = out / f"{alias}.{os.getpid()}"
        shutil.copy(out / name, fresh)
        built.append(fresh.replace(out / alias))
    return built


if __name__ == "__main__":
    try:
        print(*build(*map(Path, sys.argv[1:2])), sep="\n")
    except RuntimeError as error:
        sys.exit(str(error))
