"""Words of pages."""

from __future__ import annotations

import time

import pytest

from nnhal.v1 import admin_pb2
from nnhal_dashboard.web import formats


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "now"), (5, "5 s"), (59, "59 s"), (61, "1 min"), (3700, "1 h"), (200_000, "2 d")]
)
def test_an_age_in_one_unit(seconds: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: 10**15)
    assert formats.about(10**15 - seconds * 10**9) == expected


def test_an_instant_that_is_not_known_has_no_age() -> None:
    assert formats.about(0) == formats.UNKNOWN


def test_bytes_are_measured_in_the_unit_that_suits_them() -> None:
    assert formats.measured(2048, "bytes") == "2 KiB"
    assert formats.measured(12, "") == "12"
    assert formats.measured(0.25, "V") == "0.25 V"


def test_codes_are_words() -> None:
    assert formats.phase(admin_pb2.ExecutionState.PHASE_FENCED) == "waiting for fences"
    assert formats.phase(admin_pb2.ExecutionState.PHASE_UNSPECIFIED) == formats.UNKNOWN
    assert formats.priority(2) == "high"
    assert formats.priority(7) == "7"


def test_dimensions_show_which_extents_are_unknown() -> None:
    assert formats.dimensions([1, 0, 28]) == "[1, ?, 28]"
    assert formats.dimensions([]) == "[]"


def test_only_the_first_letter_becomes_a_capital() -> None:
    assert formats.capital("SRAM in use") == "SRAM in use"
    assert formats.capital("commands in NPU") == "Commands in NPU"
