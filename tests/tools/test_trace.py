from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nnhal.types import Copy
from nnhal_client import LedgerEntry, OperationPlacement, RunReport, StepReport
from nnhal_hosting.trace import Trace
from nnhal_tools.trace import add_run

PLACEMENTS = [OperationPlacement(("a", "b"), "CONV_2D", "npu", 0), OperationPlacement((), "ADD", "cpu", 1)]
FIRST = StepReport("npu", 50, 30, 40, 8, 5, 0, 200, 300, (Copy(False, 8, 200, 210),))
SECOND = StepReport("cpu", 50, 30, 40, 0, 0, 1, 320, 400)
LEDGER = (
    LedgerEntry("x", -1, 0, "", "npu", "CopyToTarget", 8, 8, "why"),
    LedgerEntry("m", 0, 1, "npu", "cpu", "ExportToTarget", 4, 0, "how"),
    LedgerEntry("y", 1, -1, "cpu", "", "ExportToTarget", 4, 0, "how"),
    LedgerEntry("", 1, 1, "cpu", "cpu", "Unplanned", 0, -3, "oh"),
)


def report(*steps: StepReport, called_ns: int = 50) -> RunReport:
    """A run from 50 to 500, in the framework from 100 to 450."""
    return RunReport(350, 64, steps, {}, LEDGER, 100, False, called_ns, 500)


def events_of(run: RunReport) -> list[dict[str, Any]]:
    """The events of a run, without names of rows; times in nanoseconds."""
    trace = Trace()
    add_run(trace, run, PLACEMENTS, "net")
    whole: dict[str, Any] = json.loads(json.dumps(trace.as_dict()))
    origin = whole["otherData"]["origin_ns"]
    rows = {e["pid"]: e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "process_name"}
    return [
        event | {"row": rows[event["pid"]], "at": round(event["ts"] * 1e3) + origin}
        for event in whole["traceEvents"]
        if event["ph"] != "M"
    ]


def test_a_run_has_a_row_for_client_framework_and_each_device() -> None:
    spans = [
        (e["row"], e["name"], e["at"], round(e["dur"] * 1e3))
        for e in events_of(report(FIRST, SECOND))
        if e["ph"] == "X"
    ]
    assert spans == [
        ("client", "run net", 50, 450),
        ("framework", "run net", 100, 350),
        ("npu", "step 0", 200, 100),
        ("npu", "copy in", 200, 10),
        ("cpu", "step 1", 320, 80),
    ]


def test_what_goes_over_a_network_has_slices_of_its_own() -> None:
    copies = (Copy(False, 1_234_567, 200, 240, True), Copy(False, 8, 240, 241), Copy(True, 40, 280, 290, True))
    events = events_of(report(replace(FIRST, copies=copies), SECOND))
    spans = [(e["name"], e["at"], round(e["dur"] * 1e3)) for e in events if e["ph"] == "X" and e["row"] == "npu"]
    assert spans[1:] == [("up 1.23 MB", 200, 40), ("copy in", 240, 1), ("down 40 B", 280, 10)]


def test_steps_say_what_they_are() -> None:
    (first,) = [e["args"] for e in events_of(report(FIRST, SECOND)) if e["name"] == "step 0"]
    assert first["operations"] == ["CONV_2D a, b"]
    assert (first["copied_bytes"], first["time_on_device_ns"]) == (8, 30)


def test_values_are_arrows_from_where_they_are_written_to_where_they_are_read() -> None:
    events = events_of(report(FIRST, SECOND))
    ends = {
        start["name"]: ((start["row"], start["at"]), (end["row"], end["at"]))
        for start in events
        for end in events
        if (start["ph"], end["ph"]) == ("s", "f") and start["id"] == end["id"]
    }
    assert ends == {
        "x": (("client", 50), ("npu", 200)),
        "m": (("npu", 299), ("cpu", 320)),
        "y": (("cpu", 399), ("client", 499)),
    }


def test_what_was_not_planned_is_a_mark_on_the_devices_row() -> None:
    (mark,) = [e for e in events_of(report(FIRST, SECOND)) if e["ph"] == "i"]
    assert (mark["row"], mark["name"], mark["args"]["copied_bytes"]) == ("cpu", "unplanned copy", -3)


def test_a_device_that_does_not_say_when_has_no_row() -> None:
    silent = StepReport("cpu", 50, -1, -1, 0, 0, 1)
    events = events_of(report(FIRST, silent))
    assert {event["row"] for event in events} == {"client", "framework", "npu"}
    assert [event["name"] for event in events if event["ph"] == "s"] == ["x"]


def test_a_run_that_was_not_measured_has_no_timeline() -> None:
    with pytest.raises(ValueError, match="was not measured"):
        add_run(Trace(), report(called_ns=-1), PLACEMENTS, "net")
