"""Imported by each Python process that ``nnhal ort`` starts: nnhal is the first provider of its ONNX Runtime.

Another sitecustomize that this one hides is imported too.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = Path(__file__).parent


class _WhenImported(MetaPathFinder):
    """Finds onnxruntime as it is found otherwise, and completes it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_complete(module: ModuleType) -> None:
            execute(module)
            _load("nnhal_ort", _HERE.parent / "__init__.py").put_first()

        loader.exec_module = execute_and_complete
        return spec


def _load(name: str, path: str | Path) -> Any:
    """Import a module from its file: the program's own path may not lead to it."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no module")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


sys.meta_path.insert(0, _WhenImported())
_elsewhere = [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _elsewhere)
if _hidden is not None and _hidden.origin:
    _load("_hidden_sitecustomize", _hidden.origin)
