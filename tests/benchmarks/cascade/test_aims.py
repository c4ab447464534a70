"""Aims, and the table of them."""

from __future__ import annotations

from rich.console import Console

from benchmarks.aims import Aim, aim_table, statement


def test_a_figure_within_its_limit_meets_the_aim() -> None:
    assert Aim("peak", 9_504, 9_504).is_met
    assert not Aim("peak", 9_505, 9_504).is_met


def test_what_could_not_be_measured_is_missed() -> None:
    assert not Aim("peak", None, 9_504).is_met
    assert not statement("planned = measured", None).is_met


def test_a_statement_has_no_exceptions() -> None:
    assert statement("planned = measured", 0).is_met
    assert not statement("planned = measured", 1).is_met


def test_the_table_says_which_aims_are_missed() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(aim_table([Aim("peak", 9_000, 9_504, "bytes"), Aim("time", 1.5, 1.4, "s", "on a busy machine")]))
    peak, time = (line for line in captured.get().splitlines() if "bytes" in line or "busy" in line)
    assert "9,000" in peak
    assert "met" in peak
    assert "1.500" in time
    assert "missed" in time
