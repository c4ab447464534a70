"""Outputs as pages show them."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal.tensors import Tensor
from nnhal_dashboard.pages.trying.results import ShownOutput, shown_output


def shown(array: Array, scale: float = 0.0, zero_point: int = 0, labels: tuple[str, ...] = ()) -> ShownOutput:
    tensor = Tensor("y", 3, array.shape, array.nbytes, scale, zero_point, array.dtype, array.dtype)
    return shown_output(tensor, array, labels)


def test_probabilities_are_shown_as_they_are_with_labels() -> None:
    output = shown(np.array([[0.1, 0.7, 0.2]], np.float32), labels=("cat", "dog"))
    assert [(each.label, each.index) for each in output.classes] == [("dog", 1), ("", 2), ("cat", 0)]
    assert output.classes[0].share == output.classes[0].value
    assert "add up to 1" in output.classes_note


def test_the_softmax_of_other_values_is_said_to_be_one() -> None:
    output = shown(np.array([[3.0, -1.0]], np.float32))
    share = output.classes[0].share
    assert share is not None and abs(share - 1 / (1 + np.exp(-4))) < 1e-6
    assert "softmax" in output.classes_note


def test_quantised_values_are_shown_as_the_numbers_that_they_stand_for() -> None:
    output = shown(np.array([[0, 255]], np.uint8), 1 / 255)
    assert [each.value for each in output.classes] == [1.0, 0.0]


def test_a_large_output_is_cut() -> None:
    output = shown(np.arange(1000, dtype=np.float32).reshape(10, 100))
    assert output.is_cut and output.count == 1000
    assert sum(len(texts) for _, texts in output.rows) == 100


def test_an_output_that_is_a_picture_is_shown_as_one_even_if_numbers_are_missing() -> None:
    values = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    values[0, 0, 0, 0] = np.nan
    output = shown(values)
    assert output.picture.startswith("data:image/png;base64,")
    assert output.picture_note.endswith("to 2 (white).") and output.odd == 1


def test_texts_are_shown_as_text() -> None:
    output = shown(np.array(["<b>"], dtype=object))
    assert output.text == "['<b>']" and not output.rows
