"""Aims of planning."""

from __future__ import annotations

import sys

import pytest

from benchmarks.compilers.planning import (
    OWN,
    OWN_LEAST,
    CommandFailedError,
    ProcessCost,
    interleaved,
    measure_chains,
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


def test_chains_are_measured_beside_the_line_through_all() -> None:
    aims, table = measure_chains(system_for("u55-128"), (1, 2, 4))
    assert list(table.columns[0].cells) == ["1", "2", "4"]
    assert "chain of 4 parts" in aims[0].what and aims[0].figure is not None and aims[0].figure > 0
    assert aims[1].figure is not None and 0 <= aims[1].figure <= 1


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
