"""Lengths that are tried for open dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from nnhal.types.layout import Dimensions
from nnhal_tools.given_model import read_model
from nnhal_tools.open_dimensions import shape_options, shapes_to_try
from tests.support.onnx_models import onnx_model
from tests.support.tflite_files import Spec, TfliteFile


def tried(
    directory: Path, *shapes: list[str | int | None], weights: tuple[int, int] = (3, 2)
) -> list[list[Dimensions]]:
    """All choices for inputs of these shapes, each as a list."""
    names = [f"x{number}" for number in range(len(shapes))]
    nodes = [helper.make_node("Identity", [name], [f"y{name}"]) for name in (*names, "w")]
    outputs = [node.output[0] for node in nodes]
    model = onnx_model(nodes, dict(zip(names, shapes, strict=True)), outputs, {"w": np.zeros(weights, np.float32)})
    onnx.save(model, directory / "model.onnx")
    return [list(choice.values()) for choice in shapes_to_try(read_model(directory / "model.onnx"))]


def test_the_first_choice_is_one_for_each(tmp_path: Path) -> None:
    assert tried(tmp_path, ["batch", 3, None, None], [None])[0] == [(1, 3, 1, 1), (1,)]


def test_a_tflite_file_is_first_tried_in_the_shape_that_an_interpreter_begins_with(tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input("x", Spec((1, 96, 96, 3), signature=(-1, -1, -1, 3)))
    (y,) = file.operator("RELU", [x], {"y": Spec((1, 96, 96, 3), signature=(-1, -1, -1, 3))})
    (tmp_path / "model.tflite").write_bytes(file.build(y))
    choices = shapes_to_try(read_model(tmp_path / "model.tflite"))
    assert [next(choices)["x"], next(choices)["x"]] == [(1, 96, 96, 3), (1, 1, 1, 3)]


def test_a_batch_stays_one_first_and_dimensions_of_one_name_are_alike(tmp_path: Path) -> None:
    choices = tried(tmp_path, ["batch", "length"], ["batch", "length"])
    assert choices[1:4] == [[(1, 2), (1, 2)], [(2, 1), (2, 1)], [(2, 2), (2, 2)]]


def test_each_dimension_without_a_name_is_tried_alone(tmp_path: Path) -> None:
    choices = tried(tmp_path, [None, None], [2, None, 128])
    assert [(1, 64), (2, 1, 128)] in choices and [(1, 1), (2, 64, 128)] in choices


def test_lengths_of_weights_are_tried(tmp_path: Path) -> None:
    assert [(1, 577)] in tried(tmp_path, [None, None], weights=(577, 31))
    assert [(1, 577)] not in tried(tmp_path, [None, None])


def test_no_choice_takes_much_memory_and_none_comes_twice(tmp_path: Path) -> None:
    choices = tried(tmp_path, ["n", 3, "height", "width"])
    assert max(int(np.prod(shape)) for (shape,) in choices) <= 1 << 22
    assert len({tuple(choice) for choice in choices}) == len(choices)


def test_a_model_without_open_dimensions_has_one_choice(tmp_path: Path) -> None:
    assert tried(tmp_path, [1, 3]) == [[]]


def test_choices_are_told_as_options() -> None:
    assert shape_options({"x": (1, 3), "y": (2,)}) == "--shape x:1x3 --shape y:2"
