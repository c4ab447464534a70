"""Values of inputs from what a form has: exact, or refused with what was got and what was expected."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from nnhal.arrays import Array
from nnhal.tensors import Tensor
from nnhal_dashboard.pages.trying.fields import ChosenFile, InputFields
from nnhal_dashboard.pages.trying.given import value_of


def tensor(dimensions: tuple[int, ...], kind: Any = np.float32, scale: float = 0.0, zero_point: int = 0) -> Tensor:
    element = None if kind is None else np.dtype(kind)
    size = 0 if element is None or 0 in dimensions else int(np.prod(dimensions)) * element.itemsize
    return Tensor(
        "x", 3, dimensions, size, scale, zero_point, element, np.dtype(np.uint8) if element is None else element
    )


def given(of: Tensor, way: str, files: dict[str, ChosenFile] | None = None, **typed: str) -> Any:
    return value_of(InputFields(of, 0, {"way": way, **typed}, files or {}))


def png(pixels: Array) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def npy(array: Array) -> ChosenFile:
    file = BytesIO()
    np.save(file, array)
    return ChosenFile("x.npy", file.getvalue())


def test_a_picture_becomes_an_input_in_either_layout() -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:, :, 0] = 255
    files = {"picture": ChosenFile("red.png", png(pixels))}
    first = given(tensor((1, 3, 8, 8)), "picture", files, scaling="unit")
    last = given(tensor((1, 8, 8, 3)), "picture", files, scaling="signed")
    assert first.shape == (1, 3, 8, 8) and first[0, :, 3, 3].tolist() == [1, 0, 0]
    assert last.shape == (1, 8, 8, 3) and last[0, 3, 3].tolist() == [1, -1, -1]


def test_a_picture_is_quantised_by_the_scale_of_the_input() -> None:
    files = {"picture": ChosenFile("grey.png", png(np.full((8, 8), 255, np.uint8)))}
    signed = tensor((1, 8, 8, 1), np.int8, 1 / 128, 0)
    assert set(given(signed, "picture", files, scaling="signed").reshape(-1).tolist()) == {127}
    assert set(given(signed, "picture", files, scaling="imagenet").reshape(-1).tolist()) == {127}
    plain = tensor((8, 8), np.uint8)
    assert set(given(plain, "picture", files, scaling="bytes").reshape(-1).tolist()) == {255}


def test_a_drawn_digit_fills_a_small_picture_and_has_a_margin_in_a_larger_one() -> None:
    paper = Image.new("L", (280, 280), 0)
    ImageDraw.Draw(paper).rectangle((20, 30, 40, 90), fill=255)
    file = BytesIO()
    paper.save(file, "PNG")
    drawing = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    small = given(tensor((1, 1, 8, 8)), "drawing", drawing=drawing)[0, 0]
    large = given(tensor((1, 784)), "drawing", drawing=drawing).reshape(28, 28)
    assert small.max(axis=1).min() > 0 and not small[:, 0].any() and not small[:, -1].any()
    assert not large[:3].any() and not large[-3:].any() and large[14, 14] == 1


@pytest.mark.parametrize(
    ("way", "typed", "told"),
    [
        ("drawing", {"drawing": ""}, "nothing is drawn"),
        ("drawing", {"drawing": "data:image/png;base64,AAAA"}, "no picture"),
        ("picture", {}, "no file is chosen"),
        ("npy", {}, "no file is chosen"),
        ("json", {"json": ""}, "is empty"),
        ("json", {"json": "[1,"}, "no JSON"),
        ("json", {"json": "[[1], [2, 3]]"}, "equal lengths"),
        ("json", {"json": '["a"]'}, "expected numbers"),
        ("json", {"json": "[1, 2]"}, r"got dimensions \[2\], expected \[1, 8, 8, 1\], or 64 numbers"),
        ("random", {"low": "2", "high": "1"}, "the smaller one first"),
        ("random", {"seed": "-1"}, "the seed is '-1'"),
        ("random", {"low": "nan"}, "low is 'nan', expected a number"),
        ("telepathy", {}, "got 'telepathy', expected one of picture"),
    ],
)
def test_what_does_not_fit_is_refused(way: str, typed: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        given(tensor((1, 8, 8, 1)), way, {}, **typed)


def test_numbers_beyond_the_type_are_refused() -> None:
    with pytest.raises(ValueError, match="got 256, expected uint8: whole numbers from 0 to 255"):
        given(tensor((2,), np.uint8), "json", json="[1, 256]")
    with pytest.raises(ValueError, match=r"got 1\.5, expected int32"):
        given(tensor((1,), np.int32), "json", json="[1.5]")
    assert given(tensor((2,), np.bool_), "json", json="[true, false]").tolist() == [True, False]


def test_a_file_of_numpy_is_read_and_one_that_announces_more_than_it_has_is_not() -> None:
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    read = given(tensor((2, 3)), "npy", {"npy": npy(array)})
    assert read.dtype == np.float32 and read.tolist() == array.tolist()
    lying = BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    np.lib.format.write_array_header_1_0(lying, header)
    with pytest.raises(ValueError, match="announces"):
        given(tensor((2, 3)), "npy", {"npy": ChosenFile("x.npy", lying.getvalue())})
    with pytest.raises(ValueError, match=r"'x\.npy' cannot be read"):
        given(tensor((2, 3)), "npy", {"npy": npy(np.array([{}], dtype=object))})


def test_unknown_dimensions_are_typed_and_checked() -> None:
    open_tensor = tensor((0, 3))
    assert given(open_tensor, "zeros", dimensions="4, 3").shape == (4, 3)
    with pytest.raises(ValueError, match=r"dimensions are '4, 5', expected \[any, 3\]"):
        given(open_tensor, "zeros", dimensions="4, 5")
    with pytest.raises(ValueError, match="at most 256 MiB are allowed"):
        given(open_tensor, "zeros", dimensions="1000000000, 3")


def test_random_numbers_are_the_same_for_the_same_seed() -> None:
    first, second, third = (given(tensor((100,)), "random", seed=seed) for seed in ("1", "1", "2"))
    assert np.array_equal(first, second) and not np.array_equal(first, third)
    whole = given(tensor((1000,), np.int8, 0.5), "random")
    assert whole.min() < -100 and whole.max() > 100


def test_texts_are_given_as_json() -> None:
    assert given(tensor((0,), None), "json", json='["a", "b"]').tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="expected a text"):
        given(tensor((0,), None), "json", json="[1]")
