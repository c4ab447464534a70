from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nnhal.inference.datatypes import (
    DATATYPES,
    TensorError,
    array_from_raw,
    datatype,
    datatype_of,
    element_count,
    raw_from_array,
)

NUMBERS = sorted(DATATYPES.keys() - {"BYTES"})


def test_the_datatypes_are_those_of_the_protocol() -> None:
    assert set(NUMBERS) == {
        *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
        *("FP16", "FP32", "FP64", "BF16"),
    }


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_come_back_from_their_bytes(name: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(datatype(name).dtype)
    assert datatype_of(array).name == name
    raw = raw_from_array(array)
    again = array_from_raw(datatype(name), (2, 3), raw)
    assert again.dtype == array.dtype
    assert np.array_equal(again, array)


def test_bytes_are_little_endian_and_row_major() -> None:
    array = np.array([[1, 2], [3, 4]], ">i2")
    assert bytes(raw_from_array(array.T)) == b"\1\0\3\0\2\0\4\0"


def test_bf16_is_the_upper_half_of_a_float() -> None:
    assert bytes(raw_from_array(np.array([1, -2], ml_dtypes.bfloat16))) == b"\x80\x3f\x00\xc0"


def test_bytes_with_the_right_layout_are_not_copied() -> None:
    array = np.arange(4, dtype=np.float32)
    assert np.shares_memory(np.frombuffer(raw_from_array(array), np.uint8), array)
    raw = bytearray(b"\0\0\0\0")
    view = array_from_raw(datatype("INT32"), (1,), raw)
    raw[0] = 7
    assert view[0] == 7


def test_a_scalar_has_one_element() -> None:
    assert array_from_raw(datatype("INT8"), (), b"\5") == 5
    assert bytes(raw_from_array(np.array(5, np.int8))) == b"\5"


@pytest.mark.parametrize("name", DATATYPES)
def test_a_tensor_may_be_empty(name: str) -> None:
    array = array_from_raw(datatype(name), (2, 0), b"")
    assert array.shape == (2, 0)
    assert bytes(raw_from_array(array)) == b""


def test_strings_have_a_shape() -> None:
    array = array_from_raw(datatype("BYTES"), (2, 1), b"\1\0\0\0a\2\0\0\0bc")
    assert array.tolist() == [[b"a"], [b"bc"]]
    assert bytes(raw_from_array(array)) == b"\1\0\0\0a\2\0\0\0bc"


@pytest.mark.parametrize(
    ("name", "shape", "raw", "message"),
    [
        ("FP32", (2,), b"1234", r"got 4 bytes, expected 8 for FP32 of shape \[2\]"),
        ("FP32", (-1,), b"", r"shape \[-1\] has a negative axis"),
        ("BOOL", (2,), b"\1\2", "an element of BOOL that is neither 0 nor 1"),
        ("BYTES", (1,), b"\2\0\0\0a", "element 0 of BYTES has 2 bytes, but only 1 are left"),
        ("INT8", (1,) * 65, b"1", "a shape of 65 axes"),
        ("INT8", (0, 2**63 - 1, 2**63 - 1), b"", "a shape of 3 axes"),
    ],
)
def test_bytes_that_do_not_match_datatype_and_shape_are_refused(
    name: str, shape: tuple[int, ...], raw: bytes, message: str
) -> None:
    with pytest.raises(TensorError, match=message):
        array_from_raw(datatype(name), shape, raw)


def test_a_count_of_elements_does_not_overflow() -> None:
    assert element_count((2**63 - 1, 2**63 - 1)) == (2**63 - 1) ** 2


def test_other_types_are_named() -> None:
    with pytest.raises(TensorError, match="datatype 'FP8' is unknown; expected one of BOOL, "):
        datatype("FP8")
    with pytest.raises(TensorError, match="numpy type complex64 is not a datatype"):
        datatype_of(np.zeros(1, np.complex64))
