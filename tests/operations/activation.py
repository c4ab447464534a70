"""Activations: values that are clamped or bent, and softmax along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.arrays import Array
from tests.operations.rows import Kind, f16, f32, gives, half, q8a, q8as, refuses, table, takes

_VALUES = np.array([-9.0, -0.5, 0.5, 9.0])
_CLAMPED = {"RELU": [0.0, 0.0, 0.5, 9.0], "RELU1": [-1.0, -0.5, 0.5, 1.0], "RELU6": [0.0, 0.0, 0.5, 6.0]}
_BYTES = np.arange(256)
_LOGITS = np.array([[1.0, 2.0, 3.0], [0.5, -4.0, 0.0]])
_FAR = [-700.0, -1.0, 0.0, 2.0, 700.0]
"""Reals of any size."""


def _logistic(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))


def _log_softmax(logits: Array, beta: float, axis: int) -> Array:
    powers = np.exp(logits * beta)
    return np.asarray(np.log(powers / powers.sum(axis, keepdims=True)))


_CURVES: dict[str, tuple[Callable[[Array], Array], Kind, Kind, int]] = {
    "LOGISTIC": (_logistic, q8a.at(1 / 256), q8as.at(1 / 256, -128), 1),
    "TANH": (np.tanh, q8a.at(1 / 128, 128), q8as.at(1 / 128), 3),
}
"""Functions, the one quantisation that spans each, and the level of unsigned bytes."""

CLAMPS = table(
    takes("RELU RELU1 RELU6", [f32[2, 200]], f32[2, 200], f32=1, q8a=1, f16=3, q8as=4),
    *(
        gives(name, [f32(_VALUES)], f32(clamped))
        + gives(name, [q8a.at(0.25, 100).of(_VALUES)], q8a.at(0.25, 100).of(clamped))
        + gives(name, [q8as.at(0.25, -30).of(_VALUES)], q8as.at(0.25, -30).of(clamped))
        for name, clamped in _CLAMPED.items()
    ),
    takes("ELU", [f32[2, 20], 0.75], f32[2, 20], f16=4, f32=4),
    refuses("ELU", [f16[2], 1.0], f16[2], r"input 1 \(alpha\) is FLOAT32, expected FLOAT16"),
    # Negative values saturate at minus alpha.
    gives("ELU", [f32([-100, -1e-4, 0, 2]), 0.5], f32([-0.5, -0.5e-4 + 0.25e-8, 0, 2]), near=1e-6),
)

CURVES = table(
    takes("LOGISTIC", [f32[2, 0]], f32[2, 0], f32=1, f16=3),
    takes("TANH", [f32[256]], f32[256], f32=1, f16=3),
    takes("LOGISTIC", [f32[256]], f32[256], f32=1, f16=3),
    refuses("LOGISTIC TANH", [f32[1, 1, 1, 1, 1]], f32[()], "rank 5, expected 1 to 4"),
    *(
        takes(name, [q8a.at(0.1, 5)[2, 0]], unsigned[2, 0], level=level)
        + takes(name, [q8as.at(0.1, 5)[2, 0]], signed[2, 0], level=4)
        + refuses(name, [q8a[2]], q8a.at(unsigned.scale, 1)[2], "expected")
        + refuses(name, [q8as[2]], q8as.at(signed.scale, 1)[2], "expected")
        + gives(name, [f32(_FAR)], f32(function(np.array(_FAR))), near=1e-6)
        + gives(name, [q8a.at(0.05, 100)(_BYTES)], unsigned.about(function((_BYTES - 100) * 0.05)))
        + gives(name, [q8as.at(0.05, -28)(_BYTES - 128)], signed.about(function((_BYTES - 100) * 0.05)))
        for name, (function, unsigned, signed, level) in _CURVES.items()
    ),
)

SOFTMAX = table(
    *(
        takes("SOFTMAX", [f32[2, 3, 7], beta, axis], f32[2, 3, 7], f32=3, f16=3)
        + takes("SOFTMAX", [q8a[2, 3, 7], beta, axis], q8a.at(1 / 256)[2, 3, 7], level=3)
        + takes("SOFTMAX", [q8as[2, 3, 7], beta, axis], q8as.at(1 / 256, -128)[2, 3, 7], level=4)
        for axis in (-1, 1)
        for beta in (1.0, 0.5)
    ),
    # Certainty is the largest value, and does not wrap around.
    gives("SOFTMAX", [q8a([[255, 0, 0], [0, 0, 255]]), 1.0], q8a.at(1 / 256)([[255, 0, 0], [0, 0, 255]])),
    gives(
        "SOFTMAX",
        [q8as([[127, -128, -128], [-128, -128, 127]]), 1.0],
        q8as.at(1 / 256, -128)([[127, -128, -128], [-128, -128, 127]]),
    ),
    takes("LOG_SOFTMAX", [f32[2, 3, 7], 2.0, 1], f32[2, 3, 7], f32=3, f16=3),
    takes("LOG_SOFTMAX", [f32[2, 0, 3, 1, 5], 1.0, -5], f32[2, 0, 3, 1, 5], level=3),
    refuses("LOG_SOFTMAX", [f32[2, 3], 1.0], f32[2, 3], "got 2 inputs, expected 3"),
    refuses("LOG_SOFTMAX", [f32[2, 3], 1.0, 5], f32[2, 3], "axis 5"),
    *(
        gives("LOG_SOFTMAX", [f32(_LOGITS), beta, axis], f32(_log_softmax(_LOGITS, beta, axis)), near=1e-6)
        for axis, beta in ((-1, 1.0), (0, 2.0), (1, -0.5))
    ),
    # Large logits do not overflow.
    gives("LOG_SOFTMAX", [f32([[1000, 999]]), 1.0, 1], f32([[-0.3132617, -1.3132617]]), near=1e-5),
    gives("LOG_SOFTMAX", [f16([[1000, 999]]), half(1), 1], f16([[-0.3132617, -1.3132617]]), near=1e-3),
)

ROWS = [*CLAMPS, *CURVES, *SOFTMAX]
