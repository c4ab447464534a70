"""Times, sizes and places in words."""

from __future__ import annotations

import pytest

from nnhal_pages.units import duration, lasting, place, size


@pytest.mark.parametrize(("ns", "text"), [(-1, "-"), (0, "0.0 µs"), (1234, "1.2 µs"), (2_500_000, "2.50 ms")])
def test_a_time_has_a_unit_of_its_size(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1500, "1.46 KiB"), (3 << 20, "3 MiB"), (5 << 40, "5 TiB")],
)
def test_bytes_have_a_unit_of_their_size(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (3.21, "3.2 s"), (125, "2 min 5 s"), (7500, "2 h 5 min"), (100_000, "1 d 3 h")],
)
def test_a_wait_has_two_units(seconds: float, text: str) -> None:
    assert lasting(seconds * 1e9) == text


def test_the_client_is_a_place() -> None:
    assert (place("", -1), place("npu", 2), place("framework", -1)) == ("client", "npu (2)", "framework")
