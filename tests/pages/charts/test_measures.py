from __future__ import annotations

import pytest

from nnhal_pages.charts.measures import BYTES, COUNT, NANOSECONDS, PER_SECOND, SHARE, Measure
from nnhal_pages.svg import Scale


@pytest.mark.parametrize(
    ("measure", "value", "words"),
    [
        (BYTES, 0, "0 B"),
        (BYTES, 1536, "1.5 KiB"),
        (BYTES, 3 << 30, "3 GiB"),
        (COUNT, 999, "999"),
        (COUNT, 1_250_000, "1.25 M"),
        (NANOSECONDS, 84_000, "84 µs"),
        (NANOSECONDS, 12.5e9, "12.5 s"),
        (PER_SECOND, 0.25, "0.25/s"),
        (SHARE, 0.5, "50 %"),
    ],
)
def test_values_have_the_unit_that_suits_them(measure: Measure, value: float, words: str) -> None:
    assert measure.words(value) == words


def test_ticks_are_round_in_the_unit_of_the_axis() -> None:
    assert [tick.text for tick in BYTES.ticks(Scale(0, 4 << 20, 0, 1), 4)] == ["0", "1 MiB", "2 MiB", "3 MiB", "4 MiB"]
    assert [tick.value for tick in NANOSECONDS.ticks(Scale(0, 3000, 0, 1), 3)] == [0, 1000, 2000, 3000]


def test_counts_have_no_ticks_between_whole_numbers() -> None:
    assert [tick.text for tick in COUNT.ticks(Scale(0, 2, 0, 1), 8)] == ["0", "1", "2"]


def test_a_short_piece_of_a_long_axis_has_ticks_of_its_own() -> None:
    ticks = list(BYTES.ticks(Scale(1_000_000, 1_048_576, 0, 1), 4))
    assert len({tick.text for tick in ticks}) == len(ticks) >= 3
    assert all(tick.text.endswith(" KiB") for tick in ticks)
