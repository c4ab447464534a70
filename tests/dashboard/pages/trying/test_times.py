"""Time of a trial."""

from __future__ import annotations

from nnhal.reports import StepReport
from nnhal.types import Copy
from nnhal_client import RunReport
from nnhal_dashboard.pages.trying.running import TrialRun
from nnhal_dashboard.pages.trying.times import shown_trial


def split_of(*copies: Copy) -> str:
    step = StepReport("npu-7", 500, 300, 400, 8, 5, 0, 200, 700, copies)
    report = RunReport(600, 64, (step,), {}, (), 150, False, 100, 800)
    return str(shown_trial(TrialRun(("npu-7",), (), report, (700,)), "net", {})["split"])


def test_the_wire_is_a_part_beside_copies() -> None:
    split = split_of(Copy(False, 8, 200, 300, True), Copy(False, 8, 300, 320), Copy(True, 8, 600, 700, True))
    assert "wire 200 ns" in split
    assert "copy 20 ns" in split
    assert "compute 280 ns" in split


def test_without_a_network_there_is_no_such_part() -> None:
    split = split_of(Copy(False, 8, 200, 300))
    assert "wire" not in split
    assert "copy 100 ns" in split
