"""The provider, built once and kept built, and frameworks for it."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest

import nnhal_ort
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.compiled import compiled_objects
from tests.support.testbeds import own_testbed

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def library() -> str:
    """The library, in its place in the package. Of several workers one builds."""
    if shutil.which("g++") is None:
        pytest.skip("the provider cannot be built without g++; make sdk installs it")
    build = runpy.run_path(str(ROOT / "frontends" / "ort_ep" / "build_library.py"))["build"]
    with compiled_objects() as objects:
        build(objects=objects)
    return nnhal_ort.get_library_path()


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """A framework over cpu_acc and ethos_n."""
    devices = (DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="ethos_n"))
    with own_testbed(Topology(device=devices)) as bed:
        yield bed


@pytest.fixture
def provider(library: str, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Testbed]:
    """Register the provider with the ONNX Runtime of this process, for the devices of the testbed."""
    monkeypatch.setenv("NNHAL_FRAMEWORK", str(testbed.framework))
    nnhal_ort.register()
    yield testbed
    onnxruntime.unregister_execution_provider_library("nnhal")
