"""The extras of nnhal's distribution: which modules a program needs, and what to say if they are not installed."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_SERVER = ("grpc_health", "grpc_reflection", "ml_dtypes", "onnx", "pydantic_settings", "structlog")
_FRONTENDS = ("flatbuffers", "ml_dtypes", "onnx", "tflite")
MODULES = {
    "frontends": _FRONTENDS,
    "devices": (*_SERVER, "onnxruntime", "threadpoolctl"),
    "service": (
        *_SERVER,
        *_FRONTENDS,
        *("fastapi", "httptools", "orjson", "prometheus_client", "uvicorn", "uvloop"),
    ),
    "dashboard": (
        "PIL",
        "fastapi",
        "httptools",
        "jinja2",
        "orjson",
        "pydantic_settings",
        "python_multipart",
        "structlog",
        "uvicorn",
    ),
    "tools": (
        *("grpc_health", "grpc_reflection", *_FRONTENDS),
        *("hypothesis", "onnxruntime", "pydantic_settings", "rich", "structlog", "threadpoolctl", "typer"),
    ),
    "litert": ("ai_edge_litert",),
}
"""What each extra of pyproject.toml installs."""
STARTED = ("devices", "service", "dashboard")
"""Extras of the processes that commands start."""


class _Sources(NamedTuple):
    """The folder that nnhal was installed from, and pip's option for it."""

    folder: Path
    option: str


def require_extra(name: str, program: str, beside: tuple[str, ...] = ()) -> None:
    """End a program with one line if a module of its extra is missing. Imports none of them.

    The line has the extras too that the program wants ``beside``, if one of theirs is missing.
    """
    if missing_modules(name):
        sys.exit(f"{program}: {missing_modules(name, *beside)}")


def missing_modules(*extras: str) -> str:
    """Return in words which modules of extras are missing, all of them, and what installs them; empty if none is."""
    lacking = {extra: [module for module in MODULES[extra] if find_spec(module) is None] for extra in extras}
    modules = list(dict.fromkeys(module for found in lacking.values() for module in found))
    if not modules:
        return ""
    missing = f"the module {modules[0]} is" if len(modules) == 1 else f"the modules {', '.join(modules)} are"
    return f"{missing} missing: {install_command(*(extra for extra, found in lacking.items() if found))}"


def install_command(*extras: str, folder: str = "") -> str:
    """Return the line that installs extras of nnhal here, or the distribution in a ``folder`` of its sources.

    From a clone it is that which works for the clone: nnhal is in no index of packages.
    """
    sources = _sources()
    if sources is None:
        return f"pip install 'nnhal[{','.join(extras)}]'"
    pip = Path(sys.prefix, "bin", "pip")
    program = _shown(pip) if pip.exists() else f"{_shown(Path(sys.executable))} -m pip"
    if folder:
        return f"{program} install {sources.option}{_shown(sources.folder / folder, './')}"
    return f"{program} install {sources.option}'{_shown(sources.folder)}[{','.join(extras)}]'"


def _sources() -> _Sources | None:
    """The clone that nnhal was installed from, if it is there still."""
    try:
        origin = json.loads(distribution("nnhal").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    folder = Path(origin.get("url", "").removeprefix("file://"))
    if not (folder.is_absolute() and (folder / "pyproject.toml").is_file()):
        return None
    return _Sources(folder, "-e " if origin.get("dir_info", {}).get("editable") else "")


def _shown(path: Path, prefix: str = "") -> str:
    """A path as one writes it in the present directory."""
    here = Path.cwd()
    return f"{prefix}{os.path.relpath(path)}" if path.is_relative_to(here) else str(path)
