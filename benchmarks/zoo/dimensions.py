"""Which dimensions models are run with that leave them open, and which values inputs have that are no data."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from nnhal.arrays import Array

_OPEN: dict[str, dict[str, tuple[int, ...]]] = {
    "nudenet/320n.onnx": {"images": (1, 3, 320, 320)},
    "openwakeword/melspectrogram.*": {"input": (1, 1280)},
    "openwakeword/silero_vad.onnx": {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)},
    "piper/nakdimon.onnx": {"input_1": (1, 80)},
    "piper/model.onnx": {"char_inputs": (1, 64), "diac_inputs": (1, 64), "input_lengths": (1,)},
    "rapidocr_onnxruntime/*det*": {"x": (1, 3, 320, 320)},
    "rapidocr_onnxruntime/*rec*": {"x": (1, 3, 48, 320)},
    "rapidocr_onnxruntime/*cls*": {"x": (1, 3, 48, 192)},
    "silero_vad/silero_vad_16k_sequence.onnx": {"input": (4, 576)},
    "silero_vad/*": {"input": (1, 576), "state": (2, 1, 128)},
    "basic_pitch/*": {"*": (1, 43844, 1)},
}
"""Dimensions of inputs by file and input, both patterns; the first that fits counts."""
_VALUES: dict[str, dict[str, int]] = {
    "*/silero_vad*": {"sr": 16000},
    "piper/model.onnx": {"input_lengths": 64},
}
"""Values of inputs that are settings."""
_MOST = 8
"""Random integers are below it: they are indices into tables, most of which are larger."""


def dimensions_of(file: str, name: str, declared: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of an input; ``declared`` has 0 for what is open, which is 1 if the table has no other."""
    for files, inputs in _OPEN.items():
        for pattern, dimensions in inputs.items() if fnmatchcase(file, files) else ():
            if fnmatchcase(name, pattern) and len(dimensions) == len(declared):
                return dimensions
    return tuple(size or 1 for size in declared)


def values_of(
    file: str, name: str, dimensions: tuple[int, ...], element: np.dtype[np.generic], generator: np.random.Generator
) -> Array:
    """Return values for an input."""
    for files, inputs in _VALUES.items():
        if fnmatchcase(file, files) and name in inputs:
            return np.full(dimensions, inputs[name], element)
    if element.kind == "f":
        return np.asarray(generator.uniform(0, 1, dimensions), element)
    if element.kind == "b":
        return np.asarray(generator.integers(0, 2, dimensions), element)
    most = 256 if element == np.uint8 else 128 if element == np.int8 else _MOST
    return np.asarray(generator.integers(0, most, dimensions), element)
