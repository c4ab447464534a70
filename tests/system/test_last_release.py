"""Processes and clients of the last release beside those of today: each pair runs a model over the other's wire."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import connect
from nnhal_hosting.supervision import Child
from tests.support.model_server import Devices
from tests.support.processes import WARM

ROOT = Path(__file__).parents[2]
LAST_RELEASE = "3758d2f38684f3f21ba98f28ab6fecebb4c3f798"
"""The commit of 0.1.0, which made proto/released.binpb.gz. A release sets it anew (CONTRIBUTING.md)."""
_ROOTS = ("hal", "hosting", "frontends", "compilers", "devices", "service", "client")


def import_path(folder: Path) -> str:
    """Write the sources into a folder, and return the PYTHONPATH of processes of them. Skips in a shallow clone."""
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        pytest.skip(f"no history, and so no {LAST_RELEASE[:8]}, the last release: git fetch --unshallow")
    got = _git("archive", LAST_RELEASE, *_ROOTS)
    assert got.returncode == 0, got.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(got.stdout)) as sources:
        sources.extractall(folder, filter="data")
    return os.pathsep.join(str(folder / root) for root in _ROOTS)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


MODEL = ROOT / "tools/nnhal_tools/demo/data/digits_int8.onnx"
CLIENT = """
import sys
import numpy as np
import nnhal_client

assert sys.argv[3] in nnhal_client.__file__, nnhal_client.__file__
with nnhal_client.connect(sys.argv[1]) as framework:
    model = framework.load(sys.argv[2])
    (name,) = (tensor.name for tensor in model.inputs)
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    (scores,) = model.run({name: image}).values()
    binding = model.bind()
    binding.inputs[name][...] = image
    binding.run()
    (bound,) = binding.outputs.values()
    np.testing.assert_array_equal(bound, scores)
    print(*(repr(float(score)) for score in scores.reshape(-1)))
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of processes of the last release."""
    return {"PYTHONPATH": import_path(tmp_path_factory.mktemp("released"))}


@contextmanager
def framework_over(device: Endpoint, folder: Path, variables: dict[str, str] | None = None) -> Iterator[Path]:
    endpoint = Endpoint(folder / "framework", "framework")
    words = ["--endpoint", str(endpoint.directory), "--device", f"npu={device.directory}"]
    child = Child("nnhal_service", words, variables=variables, zygote=None if variables else WARM)
    try:
        child.wait_until_ready(300)  # what it imports was never compiled
        yield endpoint.directory
    finally:
        child.stop()


def scores(framework: Path) -> list[float]:
    """Run the model with the client of today, by values and bound."""
    with connect(framework) as session:
        model = session.load(MODEL)
        assert {placement.device for placement in model.placements} == {"npu"}
        (name,) = (tensor.name for tensor in model.inputs)
        image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
        (values,) = model.run({name: image}).values()
        binding = model.bind()
        binding.inputs[name][...] = image
        binding.run()
        (bound,) = binding.outputs.values()
        np.testing.assert_array_equal(bound, values)
        return [float(score) for score in values.reshape(-1)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_devices_frameworks_and_clients_of_the_last_release_work_with_those_of_today(
    released: dict[str, str], device_processes: Devices, short_path: Path
) -> None:
    new_device, old_device = device_processes.endpoints["cpu_acc"], Endpoint(short_path / "old_device")
    words = ["cpu_acc", "--endpoint", str(old_device.directory)]
    child = Child("nnhal_devices", words, variables=released)
    try:
        child.wait_until_ready(300)  # what it imports was never compiled
        with framework_over(old_device, short_path) as new_framework:
            expected = scores(new_framework)
            client = [
                sys.executable,
                "-c",
                CLIENT,
                str(new_framework),
                str(MODEL),
                released["PYTHONPATH"].split(":")[-1],
            ]
            told = subprocess.run(client, env=os.environ | released, capture_output=True, text=True, check=False)
            assert (told.stderr, [float(word) for word in told.stdout.split()]) == ("", expected)
    finally:
        child.stop()
    with framework_over(new_device, short_path / "over_new", released) as old_framework:
        assert scores(old_framework) == expected
