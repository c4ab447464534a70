"""Backends from files, served by real device processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.types import Operand, OperandType, OperationType, Request
from nnhal_devices.registry import driver_names
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_in_ashmem, addition_model, argument
from tests.support.backends import EXTENSION_ID, EXTENSION_VERSION, SAMPLE, build_extension, example, write_backend
from tests.support.command import nnhal
from tests.support.models import Recipe
from tests.support.processes import device_process


@pytest.fixture
def backends(short_path: Path) -> Path:
    """Make a directory with the example that wraps a driver."""
    directory = short_path / "backends"
    directory.mkdir()
    shutil.copy(SAMPLE, directory)
    return directory


def serve(driver: str, directory: Path, version: str, *options: str) -> Child:
    """Run a device process, run an addition on it, end the process, and return it."""
    with device_process(driver, directory, *options) as (child, endpoint), RemoteDevice(endpoint, "test") as device:
        assert device.version() == version
        prepared, addition = device.prepare_model(addition_model()), addition_in_ashmem()
        addition.check(lambda: prepared.execute(addition.request), 1, 2)
    return child


def test_the_example_in_the_documentation_is_served(short_path: Path, backends: Path) -> None:
    child = serve("Sample", short_path, "acme-sample-1.0", "--backend-path", str(backends))
    assert "warning" not in child.said()


def test_the_example_that_computes_is_served_and_both_name_what_they_refuse(short_path: Path, backends: Path) -> None:
    (backends / "Acme_Adder_backend.py").write_text(example())
    code, shape = OperandType.TENSOR_FLOAT32, (2, 2)
    recipe, values = Recipe(), Operand(code, shape)
    ones = recipe.constant(code, [[1, 1], [1, 1]])
    added = recipe.operation(OperationType.ADD, [recipe.input(code, shape), ones, *recipe.integers(0)], values)
    model = recipe.build(recipe.operation(OperationType.RELU, [added], values)).model
    other = Recipe()
    tanh = other.operation(OperationType.TANH, [other.input(code, shape)], values)
    for driver, allowed in (("Sample", "ADD"), ("Adder", "ADD or RELU")):
        with (
            device_process(driver, short_path, "--backend-path", str(backends)) as (_, endpoint),
            RemoteDevice(endpoint, "test") as device,
        ):
            (refused,) = device.assess_model(other.build(tanh).model).operations
            assert (refused.code, refused.got, refused.allowed) == ("OP", "TANH", allowed)
            if driver == "Adder":
                pool = create_ashmem(64)
                memory = open_pool(pool, writable=True)
                memory.write(0, np.array([1, -2, 3, -4], np.float32).view(np.uint8))
                device.prepare_model(model).execute(Request((argument(0, 16),), (argument(32, 16),), (pool,)))
                assert memory.read(32, 16).view(np.float32).tolist() == [2, 0, 4, 0]


def test_the_example_that_computes_keeps_the_contract(backends: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (backends / "Acme_Adder_backend.py").write_text(example())
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(backends))
    done = nnhal("check", "Adder", "--only", "executions", "--only", "bursts", timeout=300)
    assert done.returncode == 0, done.stdout


def test_a_device_that_a_user_starts_says_when_it_serves(short_path: Path) -> None:
    words = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path / "null")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        told = running.stderr.readline()
        running.terminate()
        running.stderr.read()
    assert told == f"nnhal device: null serves at {short_path / 'null'}, until SIGTERM or SIGINT\n"


def test_an_extension_module_is_served(short_path: Path, backends: Path) -> None:
    real = build_extension(backends / "Acme_Native_backend.so.1.2.3")
    (backends / "Acme_Native_backend.so").symlink_to(real.name)
    child = serve(EXTENSION_ID, short_path, EXTENSION_VERSION, "--backend-path", str(backends))
    assert "warning" not in child.said()


def test_the_environment_lists_directories_and_the_option_replaces_them(
    short_path: Path, backends: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = write_backend(short_path / "others/Acme_Other_backend.py", "Other").parent
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", f"{others}:{backends}")
    serve("Sample", short_path, "acme-sample-1.0")
    refused = nnhal("device", "Sample", "--endpoint", str(short_path / "there"), "--backend-path", str(others))
    assert refused.returncode == 2
    known = ", ".join(["Other", *driver_names()])
    assert refused.stderr == f"nnhal device: no driver is called 'Sample'; there are {known}\n"


def test_unusable_files_do_not_keep_a_device_from_serving(short_path: Path, backends: Path) -> None:
    (backends / "Acme_Sample_backend.py").rename(backends / "Acme_Other_backend.py")  # then all are looked at
    (backends / "Acme_Raises_backend.py").write_text("import sys; sys.exit('no chip')")
    (backends / "Acme_Dies_backend.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    (backends / "Acme_Text_backend.so").write_text("text")
    (backends / "Acme_no_backend.so").symlink_to("nothing")
    write_backend(backends / "Acme_Newer_backend.py", "Newer", (1, 9999))
    write_backend(backends / "Acme_Twice_backend.py", "cpu_acc")
    child = serve("Sample", short_path, "acme-sample-1.0", "--backend-path", str(backends))
    warnings = [line for line in child.said().splitlines() if "warning" in line]
    for name in ("Raises", "Dies", "Text", "no", "Newer", "Twice"):
        assert len([line for line in warnings if f"Acme_{name}_backend" in line]) == 1, name
    assert len(warnings) == 6
    (died,) = [line for line in warnings if "Acme_Dies_backend" in line]
    assert "it ended its process by SIGILL" in died


def test_a_built_in_driver_is_served_whatever_the_directories_are(short_path: Path) -> None:
    child = serve("cpu_ref", short_path, "nnhal-cpu_ref-0.1.0", "--backend-path", "relative")
    assert "the path is not absolute" in child.said()


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("lambda options: [][0]", "create_backend raised IndexError"),
        ("lambda options: None", "returned a NoneType, which is no driver"),
    ],
)
def test_a_backend_that_makes_no_driver_is_refused_in_one_line(short_path: Path, factory: str, words: str) -> None:
    file = write_backend(short_path / "Acme_Bad_backend.py", "Bad", factory=factory)
    refused = nnhal("device", "Bad", "--endpoint", str(short_path / "there"), "--backend-path", str(short_path))
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"nnhal device: {file}: ")
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1
