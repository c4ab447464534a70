"""``nnhal demo``: the digits across two device processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command import nnhal


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    """The JSON that the demo prints."""
    done = nnhal("demo", "--json")
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_accuracy_on_held_out_digits_is_onnx_runtimes(demo: dict[str, Any], kind: str) -> None:
    assert demo[kind]["accuracy"] == demo[kind]["accuracy_onnxruntime"]
    assert demo[kind]["accuracy"] > 0.97


def test_float_outputs_agree_with_onnx_runtime(demo: dict[str, Any]) -> None:
    assert demo["float32"]["largest_difference"] <= 1e-5


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_the_work_is_shared_by_two_devices(demo: dict[str, Any], kind: str) -> None:
    assert set(demo[kind]["steps"]) == {"cpu_acc", "cpu_ref"}
    assert {placement["device"] for placement in demo[kind]["placements"]} == {"cpu_acc", "cpu_ref"}


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_no_tensor_is_copied_or_sent(demo: dict[str, Any], kind: str) -> None:
    assert demo[kind]["tensor_bytes_copied"] == 0
    assert demo[kind]["socket_bytes"] < demo[kind]["tensor_bytes_shared"]


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_latency_is_split_without_a_rest(demo: dict[str, Any], kind: str) -> None:
    latency = demo[kind]["latency_ns"]
    assert latency["compute"] > 0
    assert latency["total"] == latency["compute"] + latency["copy"] + latency["control"]


def test_it_shows_digits_and_predictions() -> None:
    done = nnhal("demo", "--show", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("╭") == 3
    assert "accuracy" in done.stdout
    assert "cpu_ref" in done.stdout
