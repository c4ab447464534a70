"""The framework's compilation cache, on real devices."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, Testbed, Topology
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.refusals import refusal
from tests.support.testbeds import own_testbed
from tests.support.tflite_files import TfliteFile, floats

TOKEN = bytes(range(32))
CPU_ONLY = Topology(device=(DeviceEntry(driver="cpu_ref"),))
SPLIT = {"op:MUL": "cpu_ref", "op:ADD": "cpu_acc"}
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
ROW = np.arange(16, dtype=np.float32) / 16


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """Return the framework's cache directory, which does not exist at first."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        yield Path(directory) / "cache"


@pytest.fixture(scope="module")
def testbed(cache: Path) -> Iterator[Testbed]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
    ):
        patch.setenv("NNHAL_SERVICE_CACHE_DIRECTORY", str(cache))
        with Testbed(DEFAULT_TOPOLOGY, Path(directory), zygote=WARM) as bed:
            yield bed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model of x plus a row of constants, times that row."""
    nodes = [helper.make_node("Add", ["x", "row"], ["sum"]), helper.make_node("Mul", ["sum", "row"], ["y"])]
    file = tmp_path / "model.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 16]}, ["y"], {"row": ROW}), file)
    return file


@pytest.fixture(autouse=True)
def emptied(cache: Path) -> None:
    for file in files(cache):
        file.unlink()


def files(cache: Path) -> list[Path]:
    return sorted(cache.iterdir()) if cache.exists() else []


def written(cache: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in files(cache)}


def check(model: Model) -> None:
    np.testing.assert_allclose(model.run({"x": X})["y"], (X + ROW) * ROW, atol=1e-6)


def test_a_second_load_restores_every_step_from_the_cache(framework: Framework, cache: Path, path: Path) -> None:
    first = framework.load(path, pins=SPLIT, cache_token=TOKEN)
    assert first.steps == ("cpu_acc", "cpu_ref")
    check(first)
    before = written(cache)
    assert len(before) == 5  # two of each step, and the outline
    second = framework.load(path, pins=SPLIT, cache_token=TOKEN)
    check(second)
    assert written(cache) == before  # a preparation would have truncated the files
    assert (second.inputs, second.outputs, second.steps) == (first.inputs, first.outputs, first.steps)
    assert second.run_with_report({"x": X})[1].ledger == first.run_with_report({"x": X})[1].ledger
    assert second.placements == first.placements
    assert second.explain() == first.explain()


@pytest.mark.parametrize("number", range(5))
def test_a_model_with_a_damaged_cache_file_is_prepared_again(
    framework: Framework, cache: Path, path: Path, number: int
) -> None:
    framework.load(path, pins=SPLIT, cache_token=TOKEN)
    contents = [file.read_bytes() for file in files(cache)]
    assert all(contents)
    damaged = files(cache)[number]
    damaged.write_bytes(bytes(len(contents[number])))
    check(framework.load(path, pins=SPLIT, cache_token=TOKEN))
    assert damaged.read_bytes() == contents[number]


@pytest.fixture(scope="module")
def whole_files(cache: Path) -> Iterator[Framework]:
    """A framework over the CPU's devices, with the same cache directory: they take files as a whole."""
    topology = Topology(
        device=tuple(DeviceEntry(driver=name) for name in ("cpu_acc", "cpu_ref")),
        framework={"cache_directory": str(cache)},
    )
    with (
        own_testbed(topology) as bed,
        connect(bed.framework) as session,
    ):
        yield session


def tflite(directory: Path) -> Path:
    """A model as ``path``'s in the other format."""
    file = TfliteFile()
    x, row = file.input("x", floats(1, 16)), file.constant(ROW.reshape(1, 16), floats(1, 16))
    (total,) = file.operator("ADD", [x, row], {"sum": floats(1, 16)})
    found = directory / "model.tflite"
    found.write_bytes(file.build(*file.operator("MUL", [total, row], {"y": floats(1, 16)})))
    return found


@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
def test_a_file_that_one_device_takes_is_loaded_from_its_compilation_and_outline(
    whole_files: Framework, cache: Path, path: Path, tmp_path: Path, suffix: str
) -> None:
    path = path if suffix == "onnx" else tflite(tmp_path)
    first, second = (whole_files.load(path, cache_token=TOKEN) for _ in range(2))
    before = written(cache)
    assert len(before) == 3
    third = whole_files.load(path, cache_token=TOKEN)
    assert written(cache) == before
    usual = whole_files.load(path, pins={"op:ADD": "cpu_acc"})
    for model in (first, second, third):
        check(model)
        assert (model.inputs, model.outputs, model.steps) == (usual.inputs, usual.outputs, ("cpu_acc",))
        assert model.placements == usual.placements
    assert second.explain() == first.explain()
    assert third.run_with_report({"x": X})[1].ledger == first.run_with_report({"x": X})[1].ledger


@pytest.mark.parametrize("number", range(3))
def test_a_file_whose_compilation_or_outline_is_damaged_is_imported_again(
    whole_files: Framework, cache: Path, path: Path, number: int
) -> None:
    whole_files.load(path, cache_token=TOKEN)
    contents = [file.read_bytes() for file in files(cache)]
    damaged = files(cache)[number]
    damaged.write_bytes(bytes(len(contents[number])))
    check(whole_files.load(path, cache_token=TOKEN))
    check(whole_files.load(path, cache_token=TOKEN))
    assert [len(file.read_bytes()) for file in files(cache)] == [len(content) for content in contents]


def test_each_token_has_its_own_files(framework: Framework, cache: Path, path: Path) -> None:
    for token in (TOKEN, TOKEN[::-1]):
        check(framework.load(path, devices=["cpu_ref"], cache_token=token))
    assert len(files(cache)) == 6


def test_nothing_is_cached_without_a_token(framework: Framework, cache: Path, path: Path) -> None:
    check(framework.load(path))
    assert files(cache) == []


@pytest.mark.parametrize("size", [1, 31, 33])
def test_a_token_of_another_length_is_refused(framework: Framework, path: Path, size: int) -> None:
    words = f"a cache token of {size} bytes, expected 32"
    refusal(lambda: framework.load(path, cache_token=bytes(size)), ErrorStatus.INVALID_ARGUMENT, words)


def test_a_token_is_ignored_if_the_framework_has_no_cache_directory(short_path: Path, path: Path) -> None:
    with Testbed(CPU_ONLY, short_path, zygote=WARM) as testbed, connect(testbed.framework) as framework:
        check(framework.load(path, cache_token=TOKEN))
