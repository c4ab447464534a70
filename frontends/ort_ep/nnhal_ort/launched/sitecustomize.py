"""Imported by each Python process that ``nnhal ort`` starts: once ONNX Runtime is imported, nnhal is its first provider.

Another sitecustomize that this one hides is imported too.
"""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent


class _WhenImported:
    """Finds onnxruntime as it is found otherwise, and completes it."""

    def find_spec(self, name, path=None, target=None):
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_complete(module):
            execute(module)
            _load("nnhal_ort", _HERE.parent / "__init__.py").put_first()

        spec.loader.exec_module = execute_and_complete
        return spec


def _load(name, path):
    """Import a module from its file: the program's own path may not lead to it."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


sys.meta_path.insert(0, _WhenImported())
_elsewhere = [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", _elsewhere)
if _hidden is not None and _hidden.origin:
    _load("_hidden_sitecustomize", _hidden.origin)
