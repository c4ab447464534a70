from __future__ import annotations

import pytest

from nnhal_frontends.input_shapes import parse_lengths, parse_shapes, shapes_with


def test_each_input_has_its_shape() -> None:
    assert parse_shapes(["x=1,3,224,224", "a=b=2x4", "scalar="]) == {
        "x": (1, 3, 224, 224),
        "a=b": (2, 4),
        "scalar": (),
    }


@pytest.mark.parametrize("text", ["x", "=1,2", "x=1,,2", "x=-1", "x=1,0", "x=many"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected INPUT:1x3x224x224"):
        parse_shapes([text])


def test_an_input_has_one_shape() -> None:
    with pytest.raises(ValueError, match="got 'x' twice"):
        parse_shapes(["x=1", "x=2"])


def test_shapes_have_a_colon_and_crosses_too() -> None:
    assert parse_shapes(["x:1x3x224x224", "serving:0:2x4"]) == {"x": (1, 3, 224, 224), "serving:0": (2, 4)}


def test_dimensions_have_names_and_lengths() -> None:
    assert parse_lengths(["batch=4", "a=b=2"]) == {"batch": 4, "a=b": 2}


@pytest.mark.parametrize("text", ["batch", "=4", "batch=", "batch=0", "batch=-1", "batch=4x"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"--dim: got .*, expected NAME=N"):
        parse_lengths([text])


def test_a_dimension_has_one_length() -> None:
    with pytest.raises(ValueError, match="got 'n' as 1 and as 2"):
        parse_lengths(["n=1", "n=2"])


DECLARED = {"x": (0, 3, 0), "mask": (0, 0), "fixed": (2, 2), "unnamed": (0, 4)}
NAMES = {"x": ("batch", "", "seq"), "mask": ("batch", "seq"), "fixed": ("batch", "")}


def test_a_length_fixes_all_dimensions_of_its_name() -> None:
    found = shapes_with({}, {"batch": 2, "seq": 8}, DECLARED, NAMES)
    assert found == {"x": (2, 3, 8), "mask": (2, 8)}


def test_other_open_dimensions_of_an_input_stay_open() -> None:
    assert shapes_with({}, {"seq": 8}, DECLARED, NAMES) == {"x": (0, 3, 8), "mask": (0, 8)}


def test_a_shape_counts_more_than_lengths() -> None:
    found = shapes_with({"mask": (5, 6)}, {"batch": 2, "seq": 8}, DECLARED, NAMES)
    assert found == {"x": (2, 3, 8), "mask": (5, 6)}


@pytest.mark.parametrize(
    ("shapes", "lengths", "words"),
    [
        ({"y": (1,)}, {}, "--shape: got y, the model's inputs are x, mask, fixed, unnamed"),
        ({}, {"depth": 1}, "--dim: got depth, the model has open dimensions batch, seq"),
    ],
)
def test_what_does_not_fit_the_model_is_named(
    shapes: dict[str, tuple[int, ...]], lengths: dict[str, int], words: str
) -> None:
    with pytest.raises(ValueError) as caught:
        shapes_with(shapes, lengths, DECLARED, NAMES)
    assert str(caught.value) == words


def test_a_model_without_names_is_told_of_shapes() -> None:
    with pytest.raises(ValueError, match="no open dimension with a name; see --shape"):
        shapes_with({}, {"batch": 1}, {"x": (0, 4)}, {})
