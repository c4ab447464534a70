"""Shapes and data of requests."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.generators import BenchError
from benchmarks.serve import Target, Transport
from benchmarks.serve.inputs import ServedSignature, TensorSpec, input_data

IMAGE = TensorSpec("image", "FP32", (-1, 3, -1, -1))
FIXED = TensorSpec("x", "INT64", (1, 4))
OUTPUT = TensorSpec("y", "FP32", (-1, 10))


def test_a_batch_takes_the_place_of_an_open_first_axis() -> None:
    resolved = ServedSignature((IMAGE,), (OUTPUT,)).of_batch(4, {"image": (3, 8, 8)})
    assert resolved.inputs[0].shape == (4, 3, 8, 8)
    assert resolved.outputs[0].shape == (4, 10)
    assert resolved.outputs[0].byte_size(1) == 160


def test_a_whole_shape_may_be_given() -> None:
    assert ServedSignature((IMAGE,), ()).of_batch(1, {"image": (2, 3, 8, 8)}).inputs[0].shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("tensor", "batch", "shapes", "words"),
    [
        (IMAGE, 1, {}, "--shape image:"),
        (IMAGE, 1, {"image": (4, 8, 8)}, r"expected \[-1, 3, -1, -1\]"),
        (IMAGE, 1, {"picture": (3, 8, 8)}, "expected one of the model's inputs: image"),
        (FIXED, 2, {}, "which has no batch"),
    ],
)
def test_shapes_that_do_not_fit(tensor: TensorSpec, batch: int, shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        ServedSignature((tensor,), ()).of_batch(batch, shapes)


def test_an_output_of_unknown_size_gets_what_is_said() -> None:
    assert TensorSpec("y", "FP32", (1, -1)).byte_size(77) == 77
    assert TensorSpec("y", "BYTES", (1,)).byte_size(77) == 77


@pytest.mark.parametrize("kind", ["BOOL", "UINT8", "INT64", "FP16", "FP32", "BF16", "BYTES"])
@pytest.mark.parametrize("source", ["zero", "random"])
def test_data_is_made_for_every_datatype(kind: str, source: str) -> None:
    (array,) = input_data(ServedSignature((TensorSpec("x", kind, (2, 3)),), ()), source).values()
    assert array.shape == (2, 3)


def test_data_of_a_file_is_perf_analyzers(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"data": [{"x": [1, 2, 3, 4]}]}))
    assert input_data(ServedSignature((FIXED,), ()), str(file))["x"].tolist() == [[1, 2, 3, 4]]
    file.write_text(json.dumps({"data": [{"x": {"content": ["a", "bc"], "shape": [2]}}]}))
    words = input_data(ServedSignature((TensorSpec("x", "BYTES", (2,)),), ()), str(file))["x"]
    np.testing.assert_array_equal(words, np.array([b"a", b"bc"], object))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "expected JSON"),
        ('{"data": []}', "expected a list of one object"),
        ('{"data": [{"z": [1]}]}', "expected x too"),
        ('{"data": [{"x": [1, 2]}]}', r"expected INT64 of shape \[1, 4\]"),
        ('{"data": [{"x": "four"}]}', "expected INT64"),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "data.json"
    file.write_text(content)
    with pytest.raises(BenchError, match=words):
        input_data(ServedSignature((FIXED,), ()), str(file))


def test_a_target_goes_to_another_process_and_comes_back() -> None:
    target = Target(Transport.HTTP, "h:1", "m", "2", 4, {"x": (1, 2)}, "zero", True, 7, {"a": "b"})
    assert Target.from_json(json.dumps(asdict(target))) == target
