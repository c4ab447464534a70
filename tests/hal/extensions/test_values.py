"""Values that are not tensors of numbers, as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from nnhal.extensions.values import PADDING_BYTES, padded, strings_from_bytes, value_from_bytes, value_to_bytes


def test_strings_come_back_as_the_bytes_that_they_were() -> None:
    given = np.empty((2, 2), object)
    given[...] = [[b"a", b"\xff\x00"], [b"", b"bc\x00"]]
    found = strings_from_bytes(value_to_bytes(given))
    assert found.dtype == object and found.shape == (2, 2)
    assert found.tolist() == given.tolist()


def test_another_value_is_refused_as_a_tensor_of_strings() -> None:
    for value in ([np.array(["a"], object)], np.zeros(3, np.float32), None):
        with pytest.raises(ValueError, match="not a tensor of strings"):
            strings_from_bytes(value_to_bytes(value))
    with pytest.raises(DecodeError):
        strings_from_bytes(b"\xff\xff")


@pytest.mark.parametrize("extra", [0, 1, 127, 128, 20000])
def test_a_padded_value_is_the_same_value(extra: int) -> None:
    encoded = value_to_bytes(np.array(["a", "bc"], object))
    size = len(encoded) + PADDING_BYTES + extra
    assert len(padded(encoded, size)) == size
    assert value_from_bytes(padded(encoded, size)).tolist() == ["a", "bc"]
