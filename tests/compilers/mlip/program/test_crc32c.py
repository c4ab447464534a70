from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.program.crc32c import crc32c


def bit_by_bit(data: bytes, remainder: int = 0) -> int:
    for octet in data:
        remainder ^= octet
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder


def test_the_reference_is_castagnolis() -> None:
    assert bit_by_bit(b"123456789", 0xFFFFFFFF) ^ 0xFFFFFFFF == 0xE3069283


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 252, 511, 512, 513, 516, 65535, 65536, 65540, 65537, 131077])
def test_bytes_have_their_remainder(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == bit_by_bit(data)


def test_nothing_and_zeros_have_the_remainder_0() -> None:
    assert crc32c(b"") == crc32c(bytes(1000)) == 0


def test_zeros_in_front_change_nothing_and_behind_they_do() -> None:
    assert crc32c(bytes(3) + b"abc") == crc32c(b"abc") != crc32c(b"abc\0")


def test_a_view_of_bytes_is_as_good_as_bytes() -> None:
    assert crc32c(memoryview(b"xabcdefg")[1:]) == crc32c(bytearray(b"abcdefg"))
