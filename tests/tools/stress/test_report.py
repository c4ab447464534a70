"""When a stress run has passed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import typer

from nnhal_tools.cli import stress as command
from nnhal_tools.stress import StressFinding, StressReport
from nnhal_tools.stress.report import CLOSED, CUT_OFF


def report_of(*outcomes: str) -> StressReport:
    """A report of actions with these outcomes."""
    report = StressReport("cpu_ref", 1, seconds=3)
    for outcome in outcomes:
        report.count("execute", outcome)
    return report


def test_a_run_in_which_something_was_done_passes() -> None:
    assert report_of("NONE").passed
    assert report_of("INVALID_ARGUMENT", CUT_OFF).passed


@pytest.mark.parametrize("outcomes", [(), (CUT_OFF,), (CLOSED, CUT_OFF)])
def test_a_run_that_did_nothing_fails(
    outcomes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: Any) -> StressReport:
        return report_of(*outcomes)

    monkeypatch.setattr(command, "run_stress", run)
    monkeypatch.setattr(command, "opened_device", lambda *_: nullcontext())
    with pytest.raises(typer.Exit) as ended:
        command.stress("cpu_ref", seconds=3)
    assert ended.value.exit_code == 1
    assert "nothing was done: no action ended within 3 s; give it more --seconds" in capsys.readouterr().out


def test_violations_and_leftovers_fail() -> None:
    found, left = report_of("NONE"), report_of("NONE")
    found.findings.append(StressFinding(1, 0, 0, "execute", "", "wrong output"))
    left.leftovers.append("sessions: 2, was 1")
    assert not found.passed and not left.passed
