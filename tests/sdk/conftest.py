"""The device of examples/device_cpp, built once and kept built."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from tests.sdk.foreign import DeviceProgram, running

ROOT = Path(__file__).parents[2]
_BUILD_SECONDS = 900
_TOOLS = ("cmake", "g++", "pkg-config", "protoc", "grpc_cpp_plugin")


def missing() -> str:
    """What the SDK cannot be built without; empty if nothing is missing."""
    tools = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if not tools and subprocess.run(["pkg-config", "--exists", "grpc++", "protobuf"], check=False).returncode != 0:
        tools = ["libgrpc++-dev", "libprotobuf-dev"]
    return ", ".join(tools)


def built(source: Path, target: Path) -> None:
    """Build what a CMakeLists.txt describes, unless that is done. Of several workers one builds."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["cmake", "-S", str(source), "-B", str(target)], ["cmake", "--build", str(target), "-j2"]):
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
            assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="session")
def device_cpp() -> DeviceProgram:
    """The device in C++: examples/device_cpp."""
    lacks = missing()
    if lacks:
        pytest.skip(f"the SDK cannot be built without {lacks}; make sdk installs it")
    target = ROOT / ".sdk" / "device_cpp"
    built(ROOT / "examples" / "device_cpp", target)
    return DeviceProgram(target / "device_cpp")


@pytest.fixture(scope="session")
def foreign(device_cpp: DeviceProgram) -> Iterator[Endpoint]:
    """Return the endpoint of a shared process of it. A test that disturbs its device starts its own."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, running(device_cpp, Path(directory)) as process:
        yield process.endpoint
