"""The extras of nnhal's distribution: which modules a program needs, and what to say if they are not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec

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
        *("onnxruntime", "pydantic_settings", "rich", "structlog", "threadpoolctl", "typer"),
    ),
}
"""What each extra of pyproject.toml installs."""


def require_extra(name: str, program: str) -> None:
    """End a program with one line if a module of its extra is missing. Imports none of them."""
    missing = next((module for module in MODULES[name] if find_spec(module) is None), None)
    if missing is not None:
        sys.exit(f"{program}: the module {missing} is missing: pip install 'nnhal[{name}]'")
