"""Counting known-good cases that hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cascade.known_good import known_good_aims

STRIPES = {
    "shape": [4],
    "extent": [8],
    "strides": [4.0],
    "order": [1],
    "stripes": [2],
    "offset": [0],
}
RIGHT = {"config": STRIPES, "sliding": False, "counts": [[[4], 2]]}
WRONG = {"config": STRIPES, "sliding": False, "counts": [[[4], 3]]}


def test_cases_that_fail_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"count_stripes": [RIGHT, WRONG, RIGHT, WRONG]}))
    (aim,) = known_good_aims(file)
    assert (aim.figure, aim.is_met) == (2, False)
    assert aim.remark == "of 4; the first is number 1"


def test_an_unknown_kind_of_case_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"count_stripes": [RIGHT], "volcanoes": []}))
    stripes, volcanoes = known_good_aims(file)
    assert stripes.is_met
    assert not volcanoes.is_met


def test_a_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text("[]")
    with pytest.raises(ValueError, match="got list, expected an object"):
        known_good_aims(file)
