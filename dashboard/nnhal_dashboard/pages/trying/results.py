"""Outputs as pages show them: numbers, the largest values with their labels, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isqrt

import numpy as np

from nnhal.arrays import Array
from nnhal.extensions.values import Value
from nnhal.tensors import Tensor
from nnhal_dashboard.pages.trying.elements import real_numbers
from nnhal_dashboard.pages.trying.pictures import PixelFrame, as_data_url, frame_of, pixels_of

SHOWN = 100
"""Numbers of an output that a page shows."""
_A_ROW = 10
_LARGEST = 5
_MOST_CLASSES = 100_000
_MOST_TEXT = 2000
_LEAST_EXTENT, _MOST_EXTENT = 8, 2048
"""Of outputs that are shown as pictures."""


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One of the largest values."""

    index: int
    label: str
    """Empty if the model has no labels."""
    value: float
    share: float | None
    """Its probability: the value itself, or by softmax; None if the values are neither."""


@dataclass(frozen=True, slots=True)
class ShownOutput:
    name: str
    type: str
    dimensions: tuple[int, ...]
    count: int
    rows: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """The first values: the index of a row's first one, and texts."""
    text: str = ""
    """A value that is not a tensor of numbers."""
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    odd: int = 0
    """How many values are infinite or no numbers."""
    classes: tuple[ClassRow, ...] = ()
    classes_note: str = ""
    picture: str = ""
    picture_note: str = ""

    @property
    def is_cut(self) -> bool:
        """Return whether there are more numbers than are shown."""
        return self.count > SHOWN


def shown_output(tensor: Tensor, value: Value, labels: Sequence[str]) -> ShownOutput:
    """Prepare an output for a page. ``labels`` are the names of its classes, if it has any."""
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind in "OSU":
        text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
        cut = f"{text[:_MOST_TEXT]} … ({len(text):,} characters in all)" if len(text) > _MOST_TEXT else text
        return ShownOutput(tensor.name, "value", np.shape(value) if isinstance(value, np.ndarray) else (), 1, text=cut)
    array: Array = np.asarray(value)
    flat = array.reshape(-1)
    numbers = real_numbers(array, tensor).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    classes, classes_note = _classes(array, numbers, labels)
    picture, picture_note = _picture(array)
    return ShownOutput(
        tensor.name,
        str(array.dtype),
        array.shape,
        flat.size,
        _rows(flat),
        "",
        float(finite.min()) if finite.size else 0.0,
        float(finite.max()) if finite.size else 0.0,
        float(finite.mean()) if finite.size else 0.0,
        numbers.size - finite.size,
        classes,
        classes_note,
        picture,
        picture_note,
    )


def _rows(flat: Array) -> tuple[tuple[int, tuple[str, ...]], ...]:
    texts = [_written(value) for value in flat[:SHOWN]]
    return tuple((start, tuple(texts[start : start + _A_ROW])) for start in range(0, len(texts), _A_ROW))


def _written(value: np.generic) -> str:
    kind = value.dtype.kind
    return f"{float(value):.6g}" if kind == "f" or (kind == "V" and "float" in value.dtype.name) else str(value)


def _classes(array: Array, numbers: Array, labels: Sequence[str]) -> tuple[tuple[ClassRow, ...], str]:
    """The largest values of an output that has one for each class."""
    if not (2 <= array.size <= _MOST_CLASSES and array.shape[-1:] == (array.size,)) or np.isnan(numbers).any():
        return (), ""
    shares, note = _shares(numbers)
    best = np.argsort(-numbers, kind="stable")[:_LARGEST]
    named = {int(index): labels[index] if index < len(labels) else "" for index in best}
    rows = [
        ClassRow(index, label, float(numbers[index]), None if shares is None else float(shares[index]))
        for index, label in named.items()
    ]
    return tuple(rows), note


def _shares(numbers: Array) -> tuple[Array | None, str]:
    if numbers.min() >= -1e-6 and abs(float(numbers.sum()) - 1) < 0.02:
        return numbers, "The values are probabilities already: they add up to 1."
    if numbers.min() >= 0 and numbers.max() <= 1:
        return None, "The values are between 0 and 1, and do not add up to 1: scores, each for itself."
    if not np.isfinite(numbers).all():
        return None, ""
    powers = np.exp(numbers - numbers.max())
    return powers / powers.sum(), "The values are no probabilities; those shown are their softmax."


def _picture(array: Array) -> tuple[str, str]:
    """An output that looks like a picture: H by W, grey or in colours."""
    frame = _output_frame(array.shape)
    if frame is None or array.dtype.kind not in "iuf":
        return "", ""
    pixels = pixels_of(array, frame)
    if array.dtype == np.uint8:
        return as_data_url(np.ascontiguousarray(pixels)), "The values are colours from 0 to 255."
    colours = np.asarray(pixels, np.float64)
    known = np.isfinite(colours)
    low, high = (float(colours[known].min()), float(colours[known].max())) if known.any() else (0.0, 0.0)
    span = (high - low) if isfinite(high - low) and high > low else 1.0
    grey = np.where(known, (colours - low) / span * 255, 0).astype(np.uint8)
    return as_data_url(np.ascontiguousarray(grey)), f"From {low:.4g} (black) to {high:.4g} (white)."


def _output_frame(shape: tuple[int, ...]) -> PixelFrame | None:
    frame = frame_of(shape) if len(shape) > 2 or (len(shape) == 2 and isqrt(shape[0]) > 1) else None
    if frame is None or not min(frame.height, frame.width) >= _LEAST_EXTENT:
        return None
    return frame if max(frame.height, frame.width) <= _MOST_EXTENT else None
