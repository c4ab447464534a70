from __future__ import annotations

import numpy as np
import pytest

from nnhal.kernels.fingerprint import fingerprint


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, 11160318154034397263),
        (1, 13718060045003475796),
        (3, 10709908609026466970),
        (4, 9421527712639018304),
        (7, 11736591675260184225),
        (8, 12491318377461660568),
        (16, 1080060857502750420),
        (17, 13526182118996909852),
        (32, 1917831512995979081),
        (33, 16750416167695635022),
        (64, 17691551913807367243),
        (65, 14313328211205373374),
        (128, 2037963038260878803),
        (129, 14883169112474847294),
        (200, 525935771297148851),
    ],
)
def test_lengths_of_each_kind(length: int, expected: int) -> None:
    """Answers of the C++ library FarmHash to keys of bytes 0, 1, 2, …, of ``length``."""
    key = np.arange(length, dtype=np.uint8)
    assert fingerprint(np.stack([key, key[::-1]]))[0] == expected


def test_keys_are_hashed_each_on_its_own() -> None:
    keys = np.random.default_rng(5).integers(0, 256, (6, 70), np.uint8)
    np.testing.assert_array_equal(fingerprint(keys), [fingerprint(key[None])[0] for key in keys])
