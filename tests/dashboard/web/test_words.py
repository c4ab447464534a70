"""Words of pages."""

from __future__ import annotations

import time

import pytest

from nnhal.v1 import admin_pb2
from nnhal_dashboard.web import words


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "now"), (5, "5 s"), (59, "59 s"), (61, "1 min"), (3700, "1 h"), (200_000, "2 d")]
)
def test_an_age_in_one_unit(seconds: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: 10**15)
    assert words.about(10**15 - seconds * 10**9) == expected


def test_an_instant_that_is_not_known_has_no_age() -> None:
    assert words.about(0) == words.UNKNOWN


def test_bytes_are_measured_in_the_unit_that_suits_them() -> None:
    assert words.measured(2048, "bytes") == "2 KiB"
    assert words.measured(12, "") == "12"
    assert words.measured(0.25, "V") == "0.25 V"


def test_codes_are_words() -> None:
    assert words.phase(admin_pb2.ExecutionState.PHASE_FENCED) == "waiting for fences"
    assert words.phase(admin_pb2.ExecutionState.PHASE_UNSPECIFIED) == words.UNKNOWN
    assert words.priority(2) == "high"
    assert words.priority(7) == "7"


def test_dimensions_show_which_extents_are_unknown() -> None:
    assert words.dimensions([1, 0, 28]) == "[1, ?, 28]"
    assert words.dimensions([]) == "[]"


def test_only_the_first_letter_becomes_a_capital() -> None:
    assert words.capital("SRAM in use") == "SRAM in use"
    assert words.capital("commands in NPU") == "Commands in NPU"
