"""A client in an environment of its own, in which nothing is installed but the distribution without extras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

from tests.support.model_server import Devices, Served, model_server
from tests.support.served_models import write_models

ROOT = Path(__file__).parents[2]
CLIENT = """
import json, sys
import numpy as np
import nnhal_client
from importlib.metadata import distributions
from nnhal.errors import NnhalError

def outcome(model, x):
    try:
        with nnhal_client.connect(target, native=False) as server:
            return server.open(model).run({"x": x})["y"].tolist()
    except NnhalError as error:
        return str(error)

target, directory = sys.argv[1:]
x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
words = np.array([["a", "bc", "", "d"]], object)
given = {"tanh": x, "echo_bytes": words}
with nnhal_client.connect(directory) as framework:
    native = [framework.open(model).run({"x": given[model]})["y"].tolist() for model in given]
print(json.dumps({
    "distributions": sorted(found.metadata["Name"].lower().replace("-", "_") for found in distributions()),
    "tanh": outcome("tanh", x),
    "strings": [[text.decode() for text in row] for row in outcome("echo_bytes", words)],
    "bfloat16": outcome("echo_bf16", x),
    "native": native,
}))
"""


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that has the distribution's wheel, without extras."""
    folder = tmp_path_factory.mktemp("bare")
    built = pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    if "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("pip reaches no index")
    assert built.returncode == 0, built.stderr
    python = folder / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (wheel,) = folder.glob("nnhal-*.whl")
    installed = pip("--python", str(python), "install", "--no-compile", "--no-deps", str(wheel))
    assert installed.returncode == 0, installed.stderr
    (site,) = folder.glob("venv/lib/*/site-packages")
    (own,) = distributions(name="nnhal", path=[str(site)])
    link_requirements(own, site, set())
    return python


def link_requirements(of: Distribution, site: Path, done: set[str]) -> None:
    """Have an environment share what a distribution needs without extras, and what that needs, with this one."""
    for required in map(Requirement, of.requires or ()):
        if required.name in done or (required.marker is not None and not required.marker.evaluate({"extra": ""})):
            continue
        done.add(required.name)
        found = distribution(required.name)
        for file in found.files or ():
            if ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(file.locate())
        link_requirements(found, site, done)


@pytest.fixture
def served(device_processes: Devices, tmp_path: Path) -> Iterator[Served]:
    """A framework of the full environment."""
    with model_server(device_processes, write_models(tmp_path)) as started:
        yield started


def run_bare(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that sees nothing but its environment."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([str(python), *arguments], capture_output=True, text=True, env=variables, check=False)


@pytest.mark.slow
def test_a_bare_client_runs_models(bare_python: Path, served: Served) -> None:
    done = run_bare(bare_python, "-c", CLIENT, served.grpc, str(served.endpoint.directory))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert set(found["distributions"]) - {"typing_extensions"} == {"nnhal", "grpcio", "protobuf", "numpy"}
    expected = np.tanh(np.linspace(-1, 1, 8, dtype=np.float32)).reshape(1, 8)
    np.testing.assert_allclose(found["tanh"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["native"][0], expected, rtol=1e-5)
    assert found["strings"] == found["native"][1] == [["a", "bc", "", "d"]]
    assert found["bfloat16"] == "bfloat16 needs the package ml_dtypes: pip install 'nnhal[bfloat16]'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said", "extras"),
    [
        (("-c", "from nnhal_tools.cli import main; main()", "run"), "nnhal: ", "tools,devices,service,dashboard"),
        (("-m", "nnhal_devices", "cpu_ref"), "nnhal device: ", "devices"),
        (("-m", "nnhal_service"), "nnhal serve: ", "service"),
    ],
    ids=["tools", "devices", "service"],
)
def test_what_needs_extras_names_all_that_is_missing(
    bare_python: Path, arguments: tuple[str, ...], said: str, extras: str
) -> None:
    done = run_bare(bare_python, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{said}the modules grpc_health, grpc_reflection, ")
    assert done.stderr.endswith(f" are missing: pip install 'nnhal[{extras}]'\n")
    assert "structlog" in done.stderr
