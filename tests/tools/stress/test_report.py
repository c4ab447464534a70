"""Conditions on which a stress run has passed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from nnhal_tools.cli import stress as command
from nnhal_tools.stress import StressFinding, StressReport
from nnhal_tools.stress.report import CLOSED, CUT_OFF, kind_of


def report_of(*outcomes: str) -> StressReport:
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
    device = SimpleNamespace(describe=lambda: SimpleNamespace(workers=4, modelled_timing=False))
    monkeypatch.setattr(command, "opened_device", lambda *_: nullcontext(device))
    with pytest.raises(typer.Exit) as ended:
        command.stress("cpu_ref", seconds=3)
    assert ended.value.exit_code == 1
    assert (
        "nothing was done: no action ended within 3 s; give it more --seconds, or a script with actions"
        in capsys.readouterr().out
    )


def test_violations_and_leftovers_fail() -> None:
    found, left = report_of("NONE"), report_of("NONE")
    found.findings.append(StressFinding(0, 1, 0, 0, "execute", "", "wrong output"))
    left.leftovers.append("sessions: 2, was 1")
    assert not found.passed and not left.passed


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("DEVICE_UNAVAILABLE: no; allowed: NONE", "GENERAL_FAILURE: no; allowed: NONE"),
        ("GENERAL_FAILURE: got 3; allowed: NONE", "GENERAL_FAILURE: got 3; allowed: INVALID_ARGUMENT"),
        ("relu (blob -> blob): wrong output (4, 8)[1.0]…", "relu (blob -> blob): 4 bytes from byte 0 were changed"),
    ],
)
def test_violations_of_other_kinds_have_other_words(text: str, other: str) -> None:
    assert kind_of(text) != kind_of(other)


def test_values_do_not_make_another_kind() -> None:
    one = "relu (ashmem -> open file): wrong output (4, 8)[0.0, -1.0]…, expected (4, 8)[1.5]… from ['(4, 8)[2]…']"
    other = "relu (blob -> blob): wrong output (4, 8)[3.0]…, expected (4, 8)[-2.0, 1e-07]… from ['(4, 8)[5, 7]…']"
    assert kind_of(one) == kind_of(other) == "relu : wrong output …, expected … from"
    assert kind_of("usage: buffers: 3, was 1") == kind_of("usage: buffers: 12, was 0")


def test_what_was_found_has_each_kind_once_and_leftovers_last() -> None:
    report = report_of("NONE")
    report.findings += [StressFinding(0, 1, 0, step, "execute", "", f"no fence after {step} s") for step in (50, 51)]
    report.leftovers.append("sessions: 2, was 1")
    assert report.kinds == ["no fence after s", "sessions: , was"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"script": Path("script"), "seed": 3}, "got --seed beside --script, which says all that clients do"),
        ({"script": Path("script"), "seconds": 3, "sessions": 1}, "got --seconds and --sessions beside --script"),
        ({"tries": 2}, "got --tries, expected --script or --shrink with it"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_starts(
    options: dict[str, Any], told: str
) -> None:
    with pytest.raises(typer.BadParameter, match=told):
        command.stress("no such driver", **options)


@pytest.mark.parametrize("option", ["shrink", "save_script", "json_file"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(option: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {option: tmp_path / "missing" / "file"}
    with pytest.raises(FileNotFoundError):
        command.stress("no such driver", **options)
