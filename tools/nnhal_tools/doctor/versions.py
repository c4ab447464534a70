"""Check that the versions of interpreter and packages work together."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from nnhal_tools.doctor.finding import DoctorFinding, fail, ok, warn

_PYTHON = (3, 11)
_OLDEST_GRPC = (1, 81, 1)
_NEEDS_PROTOBUF_7 = (1, 82)
"""From this version on, grpcio-health-checking and grpcio-reflection require protobuf 7."""
_FAMILY = ("grpcio-health-checking", "grpcio-reflection")
_CURRENT_TRITONCLIENT = (2, 60)
Installed = Callable[[str], str | None]
"""The version of a distribution; None if it is not installed."""


def installed(name: str) -> str | None:
    """The version in the environment of this process."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_versions(of: Installed = installed) -> Iterator[DoctorFinding]:
    yield check_python(sys.version_info[:2])
    yield check_grpc(of)
    yield check_http2(of)
    yield from check_tritonclient(of)
    yield check_onnxruntime(of)


def check_python(found: tuple[int, ...]) -> DoctorFinding:
    """Check the interpreter."""
    words = f"{platform.python_implementation()} {platform.python_version()}"
    if found < _PYTHON:
        return fail("Python", words, f"use Python {'.'.join(map(str, _PYTHON))} or newer")
    return ok("Python", words)


def check_grpc(of: Installed) -> DoctorFinding:
    """Check grpcio, the packages of its family, and protobuf."""
    names = ("grpcio", *_FAMILY, "protobuf")
    found = {name: of(name) for name in names}
    words = ", ".join(f"{name} {number or 'missing'}" for name, number in found.items())
    todo = "pip install --force-reinstall nnhal, in an environment of its own"
    if None in found.values() or parsed(found["grpcio"]) < _OLDEST_GRPC:
        return fail("gRPC", words, todo)
    wants_7 = [name for name in _FAMILY if parsed(found[name]) >= _NEEDS_PROTOBUF_7]
    if wants_7 and parsed(found["protobuf"]) < (7,):
        return fail("gRPC", f"{words}: {', '.join(wants_7)} needs protobuf 7", todo)
    return ok("gRPC", words)


def check_http2(of: Installed) -> DoctorFinding:
    """Check what serves HTTP/2 at the gRPC port of a framework."""
    found = of("ngh2")
    if found is None:
        return warn("HTTP/2", "ngh2 is missing: grpcio serves the gRPC port, slower", "pip install 'nnhal[service]'")
    return ok("HTTP/2", f"ngh2 {found} serves the gRPC port")


def check_tritonclient(of: Installed) -> Iterator[DoctorFinding]:
    """Check tritonclient: with protobuf 7, pip silently installs one of 2023, which has no upper bound on protobuf."""
    found, protobuf = of("tritonclient"), of("protobuf")
    if found is None:
        return
    words = f"tritonclient {found} with protobuf {protobuf}"
    if parsed(found) < _CURRENT_TRITONCLIENT:
        yield warn("tritonclient", f"{words}: an old one", "pip install 'tritonclient>=2.73' 'protobuf<7'")
    elif parsed(protobuf) >= (7,):
        yield fail("tritonclient", f"{words}: it needs protobuf below 7", "pip install 'protobuf<7'")
    else:
        yield ok("tritonclient", words)


def check_onnxruntime(of: Installed) -> DoctorFinding:
    """Check the packages that devices compute with."""
    found = of("onnxruntime")
    if found is None:
        return fail("ONNX Runtime", "missing", "pip install onnxruntime")
    try:
        import onnxruntime
    except ImportError as error:
        return fail("ONNX Runtime", f"{found} cannot be imported: {error}", "pip install --force-reinstall onnxruntime")
    providers = onnxruntime.get_available_providers()
    if "CPUExecutionProvider" not in providers:
        return fail("ONNX Runtime", f"{found} has {', '.join(providers)}", "pip install --force-reinstall onnxruntime")
    return ok("ONNX Runtime", found)


def parsed(text: str | None) -> tuple[int, ...]:
    """The leading numbers of a version; empty if there is no version."""
    numbers = []
    for part in (text or "").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
