from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal.inference.byte_strings import decode_byte_strings, encode_byte_strings


def objects(items: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    array = np.empty(len(items), object)
    array[:] = items
    return array


@given(st.lists(st.binary(max_size=9)))
def test_strings_come_back(items: list[bytes]) -> None:
    assert decode_byte_strings(encode_byte_strings(objects(items)), len(items)).tolist() == items


@given(st.binary(min_size=1, max_size=5), st.integers(1, 20))
def test_strings_of_one_length_come_back(item: bytes, count: int) -> None:
    items = [bytes([number]) + item for number in range(count)]
    assert decode_byte_strings(encode_byte_strings(objects(items)), count).tolist() == items


def test_each_element_is_its_length_and_itself() -> None:
    assert encode_byte_strings(objects([b"ab", b""])) == b"\2\0\0\0ab\0\0\0\0"


def test_text_is_written_as_utf_8() -> None:
    assert encode_byte_strings(np.array(["é"])) == b"\2\0\0\0\xc3\xa9"


@pytest.mark.parametrize(
    ("raw", "count", "message"),
    [
        (b"\1\0\0\0a", 2, "got 5 bytes, expected at least 8 for 2 elements"),
        (b"\4\0\0\0abcd", 2, "got 1 elements of BYTES in 8 bytes, expected 2"),
        (b"\1\0\0\0a", 0, "got 5 bytes, expected 0 for 0 elements"),
        (b"\1\0\0\0ab", 1, "got 6 bytes, expected 5 for 1 elements"),
        (b"\x09\0\0\0ab", 1, "element 0 of BYTES has 9 bytes, but only 2 are left"),
        (b"\0\0\0\0\xff\xff\xff\xff", 2, "element 1 of BYTES has 4294967295 bytes, but only 0 are left"),
    ],
)
def test_bytes_that_do_not_hold_the_elements_are_refused(raw: bytes, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_byte_strings(raw, count)


@given(st.binary(max_size=40), st.integers(0, 6))
def test_any_bytes_are_strings_or_refused(raw: bytes, count: int) -> None:
    try:
        items = decode_byte_strings(memoryview(raw), count)
    except ValueError:
        return
    assert encode_byte_strings(items) == raw
