"""TFLite networks for the ``nnhal mlip`` command, with an input and what LiteRT computes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite import ActivationFunctionType, Padding

from nnhal.arrays import Array
from tests.support.tflite_files import Spec, TfliteFile, floats, int8, uint8
from tests.support.tflite_operators import by_any_kernel

_SCALE = 1 / 128
_SHAPES = {
    "float": (floats(2, 6), floats(2, 6)),
    "int8": (int8(2, 6, scale=0.03, zero_point=5), int8(2, 6, scale=_SCALE, zero_point=0)),
    "uint8": (uint8(2, 6, scale=0.03, zero_point=90), uint8(2, 6, scale=_SCALE, zero_point=128)),
}


def write_tflite(path: Path, kind: str) -> tuple[Path, dict[str, Array], Array]:
    """Write a network of a TANH, which the accelerator does not have; return an input of it and the output."""
    given, result = _SHAPES[kind]
    file = TfliteFile()
    (bent,) = file.operator("TANH", [file.input("x", given)], {"bent": result})
    content = file.build(bent)
    values = _values(given)
    path.write_bytes(content)
    return path, {"x": values}, by_any_kernel(content, {"x": values})[0]


def write_tflite_convolution(path: Path, kind: str) -> tuple[Path, dict[str, Array], Array]:
    """Write a convolution of 3 x 3 with a RELU6, in float32 or in symmetric int8, and a softmax of float behind one of
    float32.
    """
    random = np.random.default_rng(5)
    weights = random.normal(0, 0.3, (4, 3, 3, 2))
    biases = random.normal(0, 0.1, 4)
    file = TfliteFile()
    given = floats(1, 8, 8, 2) if kind == "float" else int8(1, 8, 8, 2, scale=0.03, zero_point=0)
    result = floats(1, 8, 8, 4) if kind == "float" else int8(1, 8, 8, 4, scale=0.05, zero_point=0)
    inputs = [file.input("x", given)]
    if kind == "float":
        inputs += [file.constant(weights.astype(np.float32)), file.constant(biases.astype(np.float32))]
    else:
        scales = np.abs(weights).reshape(4, -1).max(1) / 127
        stored = np.round(weights / scales[:, None, None, None]).astype(np.int8)
        inputs.append(file.constant(stored, Spec(stored.shape, np.int8, [float(each) for each in scales], 0, 0)))
        steps = [float(each) * 0.03 for each in scales]
        inputs.append(file.constant(np.round(biases / steps).astype(np.int32), Spec((4,), np.int32, steps, 0, 0)))
    options = {
        "Padding": Padding.SAME,
        "StrideH": 1,
        "StrideW": 1,
        "DilationHFactor": 1,
        "DilationWFactor": 1,
        "FusedActivationFunction": ActivationFunctionType.RELU6,
    }
    (last,) = file.operator("CONV_2D", inputs, {"convolved": result}, ("Conv2DOptions", options))
    if kind == "float":
        (last,) = file.operator("SOFTMAX", [last], {"shares": result}, ("SoftmaxOptions", {"Beta": 1.0}))
    content = file.build(last)
    values = _values(given)
    path.write_bytes(content)
    return path, {"x": values}, by_any_kernel(content, {"x": values})[0]


def _values(spec: Spec) -> Array:
    random = np.random.default_rng(3)
    if np.dtype(spec.element_type).kind == "f":
        return random.uniform(-2, 2, spec.shape).astype(np.float32)
    limits = np.iinfo(spec.element_type)
    return random.integers(limits.min, limits.max, spec.shape, endpoint=True).astype(spec.element_type)
