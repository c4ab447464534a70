from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import DTypeLike

from nnhal_mlip.flow.files.constants_file import ConstantsFile, constant_entry


@pytest.mark.parametrize(
    ("shape", "written"),
    [((), (1, 1)), ((5,), (1, 5)), ((2, 3), (2, 3)), ((2, 3, 4), (1, 2, 3, 4)), ((1, 2, 3, 4), (1, 2, 3, 4))],
)
def test_ranks_1_and_3_get_a_leading_1(shape: tuple[int, ...], written: tuple[int, ...]) -> None:
    entry = constant_entry(np.ones(shape, np.float32))
    assert entry.shape == written
    assert entry.array().shape == written


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, ">f4"])
def test_values_of_each_type_survive(dtype: DTypeLike) -> None:
    array = np.array([[-3, 1], [100, 7]]).astype(dtype)
    file = ConstantsFile.model_validate_json(ConstantsFile({"c": constant_entry(array)}).model_dump_json())
    np.testing.assert_array_equal(file.array("c"), array)
    assert file.array("c").dtype == array.dtype.newbyteorder("=")


def test_views_are_written_row_by_row() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(constant_entry(array).array(), array)


def test_ends_have_17_digits() -> None:
    entry = constant_entry(np.array([0.1, -1e-5, 3], np.float32))
    assert (entry.min, entry.max) == ("-9.9999997473787516e-06", "3")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_no_numbers_survive(value: float) -> None:
    file = ConstantsFile({"c": constant_entry(np.array([1.0, value], np.float32))})
    again = ConstantsFile.model_validate_json(file.model_dump_json())
    assert again == file
    np.testing.assert_array_equal(again.array("c"), [[1.0, value]])


@pytest.mark.parametrize("array", [np.zeros((2, 0), np.float32), np.zeros(2, np.complex64), np.zeros(2, np.bool_)])
def test_what_a_file_cannot_hold_is_refused(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    with pytest.raises(ValueError):
        constant_entry(array)
