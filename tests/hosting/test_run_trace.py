from __future__ import annotations

from typing import Any

from nnhal.v1 import framework_admin_pb2 as wire
from nnhal.v1 import framework_pb2
from nnhal_hosting.run_trace import timeline_trace


def run(number: int, arrived_ns: int, ended_ns: int) -> wire.FinishedRun:
    step = framework_pb2.StepReport(device="npu", step=0, started_ns=arrived_ns + 20, ended_ns=ended_ns - 10)
    used = framework_pb2.LedgerEntry(
        value="image", source_step=-1, destination_step=0, destination="npu", strategy="CopyToTarget", bytes=64
    )
    return wire.FinishedRun(
        number=number,
        model="digits",
        arrived_ns=arrived_ns,
        ended_ns=ended_ns,
        queue_ns=10,
        report=framework_pb2.RunReport(steps=[step], ledger=[used]),
    )


def events_of(runs: list[wire.FinishedRun]) -> tuple[list[dict[str, Any]], dict[tuple[int, int], tuple[str, str]]]:
    """The events of a trace, and the names of its rows by their numbers."""
    events: Any = timeline_trace(runs).as_dict()["traceEvents"]
    named = [event for event in events if event["ph"] == "M"]
    processes = {event["pid"]: event["args"]["name"] for event in named if event["name"] == "process_name"}
    rows = {
        (event["pid"], event["tid"]): (processes[event["pid"]], event["args"]["name"])
        for event in named
        if event["name"] == "thread_name"
    }
    return [event for event in events if event["ph"] != "M"], rows


def test_a_run_has_its_queue_its_steps_and_its_values() -> None:
    events, rows = events_of([run(1, 1000, 1100)])
    spans = [(event["name"], rows[event["pid"], event["tid"]][0], event["dur"]) for event in events if "dur" in event]
    assert spans == [("digits", "framework", 0.1), ("queue", "framework", 0.01), ("step 0", "npu", 0.07)]
    assert [event["name"] for event in events if event["ph"] in "sf"] == ["image", "image"]


def test_runs_that_overlap_are_in_rows_of_their_own() -> None:
    events, rows = events_of([run(3, 1100, 1200), run(1, 1000, 1100), run(2, 1050, 1150)])
    lanes = {event["args"]["number"]: rows[event["pid"], event["tid"]] for event in events if event["name"] == "digits"}
    assert lanes == {1: ("framework", "runs 1"), 2: ("framework", "runs 2"), 3: ("framework", "runs 1")}


def test_without_runs_there_are_no_events() -> None:
    assert events_of([]) == ([], {})
