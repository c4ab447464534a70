"""Runtimes in this process, and what counts as alike."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal_tools.runtimes import differences, opened_runtime, place_alike, profile_of
from tests.support.onnx_models import onnx_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = softmax(a + b) over 2 x 3 floats."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["s"], name="add"),
        helper.make_node("Softmax", ["s"], ["y"], name="top"),
    ]
    path = tmp_path / "hop"
    onnx.save(onnx_model(nodes, {"a": [2, 3], "b": [2, 3]}, ["y"]), path)
    return path


def test_a_profile_has_the_time_of_each_node_by_its_name(model: Path) -> None:
    inputs = {name: np.ones((2, 3), np.float32) for name in "ab"}
    nodes = profile_of(model, inputs, 3)
    assert {(node.name, node.type) for node in nodes} == {("add", "Add"), ("top", "Softmax")}
    assert all(node.duration_ns >= 0 for node in nodes)


def test_inputs_are_given_by_name_or_in_order(model: Path) -> None:
    runtime = opened_runtime("ort", model)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    place_alike(runtime, {"b": values, "a": np.zeros((2, 3), np.float32)})
    runtime.run()
    (first,) = runtime.outputs()
    place_alike(runtime, {"one": values, "other": np.zeros((2, 3), np.int8)})
    runtime.run()
    np.testing.assert_array_equal(first, runtime.outputs()[0])


@pytest.mark.parametrize(
    ("name", "said"), [("torch", "expected ort or litert"), ("litert", "runs TFLite files, and .* is none: use ort")]
)
def test_a_runtime_that_does_not_fit_is_refused(model: Path, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        opened_runtime(name, model)


def test_a_runtime_that_is_not_installed_is_refused_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3")
    real = builtins.__import__

    def without_litert(name: str, *rest: Any) -> Any:
        if name.startswith("ai_edge_litert"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_litert)
    with pytest.raises(ValueError, match=r"LiteRT is not installed: .*pip install .*\[litert\]"):
        opened_runtime("litert", path)


@pytest.mark.parametrize(
    ("own", "expected", "beyond"),
    [
        (np.array([1.0, 100.0], np.float32), np.array([1.09, 100.0], np.float32), False),
        (np.array([1.0, 100.0], np.float32), np.array([1.11, 100.0], np.float32), True),
        (np.array([np.nan, np.inf], np.float32), np.array([np.nan, np.inf], np.float32), False),
        (np.array([np.nan, 1.0], np.float32), np.array([0.0, 1.0], np.float32), True),
        (np.array([0.0], np.float32), np.array([0.0, 0.0], np.float32), True),
        (np.array([3, 4], np.uint8), np.array([4, 4], np.uint8), False),
        (np.array([3, 4], np.uint8), np.array([5, 4], np.uint8), True),
        (np.array(["a"], object), np.array(["a"], object), False),
        (np.array(["a"], object), np.array(["b"], object), True),
    ],
)
def test_what_is_alike(own: Any, expected: Any, beyond: bool) -> None:
    (found,) = differences({"y": own}, [expected])
    assert found.is_beyond is beyond
