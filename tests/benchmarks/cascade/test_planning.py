"""What is aimed at in planning."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.cascade import planning
from benchmarks.cascade.planning import (
    OWN,
    OWN_LEAST,
    CommandFailedError,
    ProcessCost,
    chain_aims,
    interleaved,
    process_aims,
    process_cost,
)
from nnhal_cascade.hardware.memory_file import system_for


def test_own_processes_are_compared_with_the_fastest_other() -> None:
    costs = {
        OWN: ProcessCost(1.0, 0.9, 60),
        OWN_LEAST: ProcessCost(1.5, 1.4, 120),
        "slow": ProcessCost(3.0, 3.0, 200),
        "fast": ProcessCost(1.2, 1.2, 70),
    }
    found = {aim.what: aim for aim in process_aims(costs, "net")}
    assert found[f"net: process of {OWN}"].is_met
    assert not found[f"net: process of {OWN_LEAST}"].is_met
    assert found[f"net: process of {OWN}"].limit == 1.2
    assert "fast" in found[f"net: process of {OWN}"].remark
    assert found[f"net: processor time of {OWN_LEAST}"].figure == 1.4
    assert found[f"net: resident memory of {OWN}"].is_met
    assert not found[f"net: resident memory of {OWN_LEAST}"].is_met


def test_chains_are_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_COUNTS", (1, 2, 4))
    aims, points, line = chain_aims(system_for("u55-128"), tmp_path / "line.svg")
    assert [count for count, _ in points] == [1, 2, 4]
    assert aims[0].figure == points[-1][1]
    assert aims[1].figure == 1 - line.r_squared
    assert (tmp_path / "line.svg").read_text().startswith("<svg")


def test_memory_is_that_of_the_command_and_not_of_the_tests() -> None:
    small = process_cost([sys.executable, "-S", "-c", "pass"])
    large = process_cost([sys.executable, "-S", "-c", "b'x' * (200 << 20)"])
    assert small.mib < 40
    assert 200 <= large.mib < 240


def test_commands_take_turns() -> None:
    command = [sys.executable, "-S", "-c", "pass"]
    found = interleaved({"one": command, "two": command}, rounds=1)
    assert list(found) == ["one", "two"]
    assert all(each.cpu > 0 for each in found.values())


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(CommandFailedError, match="no such network"):
        process_cost([sys.executable, "-S", "-c", "raise SystemExit('no such network')"])
