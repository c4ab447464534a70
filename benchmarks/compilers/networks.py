"""Networks that others made: Keras applications with random weights, and the models in a package.

They are made once and kept in $NNHAL_NETWORKS, ``~/.cache/nnhal/networks`` by default.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from benchmarks.environments import InstallationError, environments_directory, interpreter
from benchmarks.zoo.packages import found

KERAS = "tensorflow-cpu==2.21.0"
WAKE_WORDS = "pymicro-wakeword==2.5.0"
_MAKER = Path(__file__).with_name("keras_networks.py")
_VARIABLE = "NNHAL_NETWORKS"


def networks(names: Collection[str] = ()) -> list[Path]:
    """Return the files, the smallest first; all, or those that are named. Those that are missing are made.

    Raises InstallationError if a package cannot be installed, or a network cannot be made.
    """
    root = Path(os.environ.get(_VARIABLE) or Path.home() / ".cache" / "nnhal" / "networks")
    # Another program makes other networks, under the same names.
    folder = root / hashlib.sha256(_MAKER.read_bytes()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    _take_wake_words(folder)
    missing = [name for name in names if not (folder / f"{name}.tflite").exists()]
    if missing or not names:
        python = interpreter(environments_directory() / "keras", (KERAS,), ("tensorflow",))
        try:
            subprocess.run([python, _MAKER, folder, *missing], check=True, stdout=sys.stderr)
        except subprocess.CalledProcessError as error:
            raise InstallationError(f"networks cannot be made: {error}") from error
    files = (each for each in folder.glob("*.tflite") if not names or each.stem in names)
    return sorted(files, key=lambda each: (each.stat().st_size, each.name))


def _take_wake_words(folder: Path) -> None:
    python = interpreter(environments_directory() / "wakewords", ("--no-deps", WAKE_WORDS), ("pymicro_wakeword",))
    (library,) = python.parent.parent.glob("lib/python*/site-packages")
    for file in found(library / "pymicro_wakeword"):
        if not (folder / file.path.name).exists():
            shutil.copy(file.path, folder)
