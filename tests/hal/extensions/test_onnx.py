"""The extension nnhal.onnx: codes, sizes, and values that are not tensors of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.extensions import element_sizes, size_in_bytes
from nnhal.extensions.onnx import EXTENSION, NAME, NUMBERS, VALUE, number_of
from nnhal.extensions.values import value_from_bytes, value_to_bytes
from nnhal.types import ExtensionNameAndPrefix, Model, OperandType, Subgraph


def model(name: str, prefix: int) -> Model:
    return Model(Subgraph((), (), (), ()), extension_name_to_prefix=(ExtensionNameAndPrefix(name, prefix),))


def test_types_are_known_by_the_extensions_name_and_not_by_its_prefix() -> None:
    assert number_of(model(NAME, 5), 5 << 16 | 7) == 7
    assert number_of(model("com.example.ops", 5), 5 << 16 | 7) is None
    assert number_of(model(NAME, 5), 6 << 16 | 7) is None


def test_sizes_come_from_what_the_driver_says() -> None:
    int64 = 5 << 16 | NUMBERS[np.dtype(np.int64)]
    sizes = element_sizes(model(NAME, 5), [EXTENSION])
    assert size_in_bytes(int64, (2, 3), sizes) == 48
    assert size_in_bytes(int64, (2, 0), sizes) == 0
    assert size_in_bytes(int64, (), sizes) == 0
    assert size_in_bytes(5 << 16 | VALUE, (7,), sizes) == 7
    assert size_in_bytes(OperandType.TENSOR_FLOAT32, (2, 3), sizes) == 24
    assert element_sizes(model("com.example.ops", 5), [EXTENSION]) == {}


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "", "ü"], object),
        [np.arange(3), np.zeros((2, 0), np.float32)],
        [],
        None,
        [None, np.array(["x"], object)],
        {1: 2.5, 3: 4.5},
    ],
    ids=["strings", "sequence", "empty", "none", "optionals", "map"],
)
def test_values_come_back_from_their_bytes(value: Any) -> None:
    found = value_from_bytes(value_to_bytes(value))
    np.testing.assert_equal(found, value)
    assert type(found) is type(value)
