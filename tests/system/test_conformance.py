"""``nnhal conformance`` on vectors that the tests write."""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import nnhal
from tests.support.faulty_drivers import write_faulty_driver

EXAMPLES = Path(__file__).parents[2] / "examples"


def vector(name: str, expected: list[float], expect_failure: bool = False, operation: str = "RELU") -> dict[str, Any]:
    """Return a vector of an operation on [-1, 2]."""
    operand = {"type": "TENSOR_FLOAT32", "dimensions": [2], "scale": 0.0, "zero_point": 0}
    return {
        "name": name,
        "spec": "relu",
        "version": None,
        "relaxed": False,
        "expect_failure": expect_failure,
        "multinomial_tolerance": 0.0,
        "main": {
            "operands": [
                {**operand, "lifetime": "SUBGRAPH_INPUT", "data": [-1.0, 2.0]},
                {**operand, "lifetime": "SUBGRAPH_OUTPUT", "data": expected},
            ],
            "operations": [{"type": operation, "inputs": [0], "outputs": [1]}],
            "inputs": [0],
            "outputs": [1],
        },
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A vector with a right expectation in a plain file, and another one in a gzipped file."""
    (tmp_path / "a.jsonl").write_text(json.dumps(vector("right", [0.0, 2.0])) + "\n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(json.dumps(vector("also_right", [0.0, 2.0])) + "\n")
    return tmp_path


def test_the_vectors_to_begin_with_pass() -> None:
    done = nnhal("conformance", str(EXAMPLES), "--device", "cpu_ref")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 tests: 7 passed, 0 failed, 0 declined" in done.stdout


def test_each_test_is_executed_in_every_mode_over_every_memory_on_several_processes(folder: Path) -> None:
    modes, memories = ("sync", "burst", "reusable", "fenced"), ("ashmem", "mmap_fd", "hardware_buffer_blob", "token")
    ways = [f"--mode={mode}" for mode in modes] + [f"--memory={memory}" for memory in memories]
    results = folder / "results.json"
    done = nnhal("conformance", str(folder), "--device", "cpu_ref", "--jobs=2", *ways, "--json", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "32 tests: 32 passed, 0 failed, 0 declined" in done.stdout
    passed = {
        (r["name"], r["mode"], r["memory"])
        for r in json.loads(results.read_text())["cases"]
        if r["verdict"] == "passed"
    }
    assert passed == set(product(("right", "also_right"), modes, memories))


def test_a_wrong_result_is_found_in_every_mode(folder: Path) -> None:
    (folder / "c.jsonl").write_text(json.dumps(vector("wrong", [0.0, 3.0])) + "\n")
    done = nnhal("conformance", str(folder), "--device", "cpu_ref", "--filter", "wrong", "--mode=sync", "--mode=burst")
    assert done.returncode == 1
    assert "wrong, sync over ashmem: output 0: 1 of 2 values are wrong: [1] 2 for 3" in done.stdout
    assert "wrong, burst over ashmem: output 0" in done.stdout


def test_a_vector_that_must_be_refused_and_is_not_fails(folder: Path) -> None:
    (folder / "c.jsonl").write_text(json.dumps(vector("lenient", [0.0, 2.0], expect_failure=True)) + "\n")
    done = nnhal("conformance", str(folder), "--device", "cpu_ref", "--filter", "lenient")
    assert done.returncode == 1
    assert "it should have been refused" in done.stdout


def test_an_unsupported_vector_is_declined(folder: Path) -> None:
    results = folder / "results.json"
    done = nnhal("conformance", str(folder), "--device", "null", "--json", str(results))
    assert done.returncode == 0
    assert "2 tests: 0 passed, 0 failed, 2 declined" in done.stdout
    assert {result["reason"].split(":")[0] for result in json.loads(results.read_text())["cases"]} == {"NO_IMPL"}


@pytest.mark.slow
def test_a_test_that_kills_the_device_fails_and_the_next_ones_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faulty_driver(folder / "backends", "Mortal", deadly="RELU1")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(folder / "backends"))
    (folder / "a.jsonl").write_text(json.dumps(vector("deadly", [-1.0, 1.0], operation="RELU1")) + "\n")
    done = nnhal("conformance", str(folder), "--device", "Mortal", "--mode=sync", "--mode=burst")
    assert done.returncode == 1
    assert "deadly, burst over ashmem: Mortal ended with status 9" in done.stdout
    assert "4 tests: 2 passed, 2 failed, 0 declined" in done.stdout


def test_a_broken_file_is_reported_with_its_line(folder: Path) -> None:
    (folder / "c.jsonl").write_text("{}\n")
    done = nnhal("conformance", str(folder), "--device", "cpu_ref")
    assert done.returncode == 1
    assert "c.jsonl:1: KeyError" in done.stderr
