"""Numbers as elements of a model's input: their range, and how a picture's colours become them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array
from nnhal.tensors import Tensor

_INTEGER = re.compile(r"(u?)int(\d+)")
_IMAGENET_MEAN, _IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALINGS: Mapping[str, str] = MappingProxyType(
    {
        "unit": "0 to 1",
        "signed": "-1 to 1",
        "bytes": "0 to 255",
        "imagenet": "ImageNet's mean and deviation",
    }
)
"""What the colours of a picture become, by the name in forms."""


def integer_range(element_type: np.dtype[np.generic]) -> tuple[int, int] | None:
    """Return the least and the largest value of an integer type; None for other types."""
    found = _INTEGER.fullmatch(element_type.name)
    if found is None:
        return None
    bits = int(found[2])
    return (0, (1 << bits) - 1) if found[1] else (-(1 << bits - 1), (1 << bits - 1) - 1)


def usual_scaling(tensor: Tensor) -> str:
    """Return the scaling that suits an input whose documentation nobody has read."""
    span = None if tensor.element_type is None else integer_range(tensor.element_type)
    if span is None:
        return "unit"
    if tensor.scale <= 0:
        return "bytes"
    low, high = ((bound - tensor.zero_point) * tensor.scale for bound in span)
    return "bytes" if high > 100 else "signed" if low < -0.5 else "unit"


def scaled(pixels: Array, scaling: str) -> Array:
    """Scale uint8 pixels [H, W, C] to the numbers that a model was trained with."""
    colours = pixels.astype(np.float64)
    if scaling == "bytes":
        return colours
    if scaling == "signed":
        return colours / 127.5 - 1
    shares = colours / 255
    if scaling == "imagenet":
        channels = pixels.shape[2]
        mean = np.array(_IMAGENET_MEAN if channels == 3 else [np.mean(_IMAGENET_MEAN)])
        deviation = np.array(_IMAGENET_DEVIATION if channels == 3 else [np.mean(_IMAGENET_DEVIATION)])
        shares = (shares - mean) / deviation
    return shares


def elements_of(numbers: Array, tensor: Tensor) -> Array:
    """Return real numbers as an input's elements: quantised if it is, rounded and cut to the range of integers."""
    element_type = _numeric(tensor)
    span = integer_range(element_type)
    if span is None:
        return numbers.astype(np.float32).astype(element_type)
    if tensor.scale > 0:
        numbers = numbers / tensor.scale + tensor.zero_point
    return np.clip(np.rint(numbers), *span).astype(element_type)


def real_numbers(values: Array, tensor: Tensor) -> Array:
    """Return the numbers that elements stand for, as float64."""
    numbers = values.astype(np.float32) if values.dtype.kind == "V" else values
    numbers = np.asarray(np.real(numbers), np.float64)
    return (numbers - tensor.zero_point) * tensor.scale if tensor.scale > 0 else numbers


def exact_elements(numbers: Array, tensor: Tensor) -> Array:
    """Return numbers, unscaled, as an input's elements. Raises ValueError if one is not in the type's range."""
    element_type = _numeric(tensor)
    if numbers.dtype == element_type:
        return numbers
    if numbers.dtype.kind not in "biufV":
        raise ValueError(f"got {numbers.dtype}, expected {element_type}")
    span = integer_range(element_type)
    if element_type.kind == "b":
        span = (0, 1)
    if span is not None:
        outside = (numbers < span[0]) | (numbers > span[1]) | (numbers != np.rint(numbers.astype(np.float64)))
        if outside.any():
            found = numbers.reshape(-1)[int(np.argmax(outside.reshape(-1)))]
            raise ValueError(f"got {found}, expected {element_type}: whole numbers from {span[0]} to {span[1]}")
    return numbers.astype(element_type)


def _numeric(tensor: Tensor) -> np.dtype[np.generic]:
    assert tensor.element_type is not None, tensor.name
    return tensor.element_type
