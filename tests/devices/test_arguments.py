from __future__ import annotations

import numpy as np
import pytest

from nnhal_devices.arguments import read_argument, write_argument
from nnhal_devices.driver import Argument


def test_memory_is_seen_as_an_array() -> None:
    memory = np.arange(16, dtype=np.uint8)
    values = read_argument(Argument(memory, (2, 3)), np.dtype(np.int16))
    assert values is not None
    assert values.shape == (2, 3)
    assert np.shares_memory(values, memory)
    assert read_argument(Argument(None, (2, 3)), np.dtype(np.int16)) is None


@pytest.mark.parametrize(("length", "written"), [(8, [1, 0, 2, 0, 0, 0, 0, 0]), (4, [1, 0, 2, 0]), (3, [0, 0, 0])])
def test_a_result_is_written_if_there_is_room(length: int, written: list[int]) -> None:
    memory = np.zeros(length, np.uint8)
    write_argument(Argument(memory, (2,)), np.array([1, 2], "<i2"))
    assert memory.tolist() == written
    write_argument(Argument(None, (2,)), np.array([1, 2], "<i2"))
