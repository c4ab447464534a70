"""What is aimed at in planning."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cascade import planning
from benchmarks.cascade.planning import OWN, OWN_LEAST, chain_aims, process_aims
from benchmarks.cascade.processes import ProcessCost
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
