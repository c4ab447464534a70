"""From the fields of an input to its value."""

from __future__ import annotations

import json
from io import BytesIO
from math import isfinite, prod

import numpy as np

from nnhal.arrays import Array
from nnhal.extensions.values import Value
from nnhal.given_arrays import array_in
from nnhal.types.layout import Dimensions
from nnhal_dashboard.pages.trying.elements import SCALINGS, elements_of, exact_elements, integer_range, scaled
from nnhal_dashboard.pages.trying.fields import ChosenFile, InputFields
from nnhal_dashboard.pages.trying.pictures import PixelFrame, as_data_url, pixels_of_drawing, pixels_of_file, placed
from nnhal_pages.units import size

MOST_BYTES = 256 << 20
"""The most bytes of one input."""


def value_of(fields: InputFields) -> Value:
    """Return an input's value. Raises ValueError with what was got and what was expected."""
    if fields["way"] not in fields.ways:
        raise ValueError(f"got {fields['way']!r}, expected one of {', '.join(fields.ways)}")
    element_type = fields.tensor.element_type
    if element_type is None:
        return _texts(_parsed(fields["json"]))
    dimensions = fields.dimensions
    needed = prod(dimensions) * element_type.itemsize
    if needed > MOST_BYTES:
        raise ValueError(f"dimensions {list(dimensions)} take {size(needed)}, at most {size(MOST_BYTES)} are allowed")
    match fields["way"]:
        case "json":
            return _shaped(exact_elements(_numbers(_parsed(fields["json"])), fields.tensor), dimensions)
        case "npy":
            return _shaped(exact_elements(_npy(_chosen(fields, "npy")), fields.tensor), dimensions)
        case "random":
            return _random(fields, dimensions)
        case "zeros":
            return np.zeros(dimensions, element_type)
    frame = _frame(fields)
    numbers = scaled(pixels_for(fields), _scaling(fields))
    return placed(elements_of(numbers, fields.tensor), frame, dimensions)


def pixels_for(fields: InputFields) -> Array:
    """Return the picture of an input as uint8 [H, W, C]: chosen or drawn. Raises ValueError."""
    frame = _frame(fields)
    if fields["way"] == "picture":
        pixels = pixels_of_file(_chosen(fields, "picture").content, frame, fields["crop"] == "crop")
    else:
        pixels = pixels_of_drawing(fields["drawing"], frame, fields["centre"] == "centre")
    return np.uint8(255) - pixels if fields["ink"] == "dark" else pixels


def seen(fields: InputFields) -> str:
    """Return the picture as the model sees it, for the page; empty if the input is given in another way."""
    if fields["way"] not in ("picture", "drawing"):
        return ""
    return as_data_url(pixels_for(fields))


def _frame(fields: InputFields) -> PixelFrame:
    frame = fields.frame
    if frame is None:
        raise ValueError(f"dimensions {list(fields.dimensions)} are not those of a picture")
    return frame


def _scaling(fields: InputFields) -> str:
    scaling = fields["scaling"]
    if scaling not in SCALINGS:
        raise ValueError(f"scaling is {scaling!r}, expected one of {', '.join(SCALINGS)}")
    return scaling


def _chosen(fields: InputFields, name: str) -> ChosenFile:
    file = fields.files.get(name)
    if file is None:
        raise ValueError("no file is chosen")
    return file


def _parsed(text: str) -> object:
    if not text.strip():
        raise ValueError("the field for JSON is empty")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from error


def _numbers(parsed: object) -> Array:
    try:
        array = np.asarray(parsed)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"the lists are not of equal lengths: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError("expected numbers, or lists of equal lengths of them")
    return array


def _texts(parsed: object) -> Array:
    array = np.array(parsed, dtype=object)
    if not all(isinstance(each, str) for each in array.reshape(-1)):
        raise ValueError("expected a text, or lists of equal lengths of texts: this form has no other values")
    return array


def _npy(file: ChosenFile) -> Array:
    try:
        return array_in(BytesIO(file.content), len(file.content))
    except ValueError as error:
        raise ValueError(f"file {file.name!r} cannot be read as .npy: {error}") from error


def _shaped(array: Array, dimensions: Dimensions) -> Array:
    is_flat = array.ndim <= 1 or prod(array.shape[:-1]) == 1
    if array.shape != dimensions and not (is_flat and array.size == prod(dimensions)):
        raise ValueError(
            f"got dimensions {list(array.shape)}, expected {list(dimensions)}, or {prod(dimensions):,} numbers in a row"
        )
    return array.reshape(dimensions)


def _random(fields: InputFields, dimensions: Dimensions) -> Array:
    element_type = fields.tensor.element_type
    assert element_type is not None
    seed, low, high = (_number(fields, name) for name in ("seed", "low", "high"))
    if seed < 0 or seed != int(seed):
        raise ValueError(f"the seed is {fields['seed']!r}, expected a whole number of at least 0")
    if low > high:
        raise ValueError(f"the numbers are from {fields['low']} to {fields['high']}, expected the smaller one first")
    source = np.random.default_rng(int(seed))
    span = (0, 1) if element_type.kind == "b" else integer_range(element_type)
    if span is None:
        return source.uniform(low, high, dimensions).astype(np.float32).astype(element_type)
    if not (span[0] <= low <= high <= span[1] and low == int(low) and high == int(high)):
        raise ValueError(
            f"the numbers are from {fields['low']} to {fields['high']}, expected whole ones from {span[0]} to {span[1]}"
        )
    drawn_type = np.uint64 if span[1] >= 1 << 63 else np.int64
    return source.integers(int(low), int(high), dimensions, drawn_type, endpoint=True).astype(element_type)


def _number(fields: InputFields, name: str) -> float:
    try:
        number = float(fields[name])
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ValueError(f"{name} is {fields[name]!r}, expected a number")
    return number
