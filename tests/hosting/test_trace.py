from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nnhal_hosting.trace import Trace


def events(trace: Trace, kind: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads(json.dumps(trace.as_dict()))["traceEvents"]
    return [event for event in read if event["ph"] == kind]


def test_rows_have_names_and_an_order() -> None:
    trace = Trace()
    rows = [trace.row("npu"), trace.row("cpu", "one"), trace.row("cpu", "two"), trace.row("npu")]
    assert rows[0] == rows[3]
    assert rows[1].process == rows[2].process != rows[0].process
    assert rows[1].thread != rows[2].thread
    named = [(event["name"], event["pid"], event["args"]) for event in events(trace, "M")]
    assert ("process_name", rows[0].process, {"name": "npu"}) in named
    assert ("process_sort_index", rows[0].process, {"sort_index": 1}) in named
    assert [args["name"] for name, _, args in named if name == "thread_name"] == ["main", "one", "two"]


def test_times_are_microseconds_from_the_first_event_on() -> None:
    trace = Trace()
    start = 86_400_000_000_000_001
    trace.span(trace.row("a"), "later", start + 2_500, start + 4_000, {"bytes": 3})
    trace.span(trace.row("a"), "first", start, start + 1)
    first, later = events(trace, "X")
    assert (first["name"], first["ts"], first["dur"]) == ("first", 0.0, 0.001)
    assert (later["ts"], later["dur"], later["args"]) == (2.5, 1.5, {"bytes": 3})
    assert trace.as_dict()["otherData"] == {"clock": "CLOCK_BOOTTIME", "origin_ns": start}


def test_an_arrow_is_two_events_with_one_id() -> None:
    trace = Trace()
    here, there = trace.row("here"), trace.row("there")
    trace.flow("x", (here, 10), (there, 20))
    trace.flow("y", (here, 11), (there, 21))
    begun, ended = events(trace, "s"), events(trace, "f")
    assert [event["name"] for event in begun] == ["x", "y"] == [event["name"] for event in ended]
    assert [event["id"] for event in begun] == [event["id"] for event in ended]
    assert begun[0]["id"] != begun[1]["id"]
    assert all(event["bp"] == "e" for event in ended)  # "e": the arrow ends at the enclosing span
    assert (begun[0]["pid"], ended[0]["pid"]) == (here.process, there.process)


def test_an_instant_is_an_event_of_its_row() -> None:
    trace = Trace()
    trace.instant(trace.row("a"), 7, "now", {"why": "because"})
    (event,) = events(trace, "i")
    assert (event["name"], event["s"], event["args"]) == ("now", "t", {"why": "because"})


def test_a_file_holds_one_object(tmp_path: Path) -> None:
    trace = Trace()
    trace.write(tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []
    trace.span(trace.row("a"), "x", 1, 2)
    trace.write(tmp_path / "one.json")
    assert json.loads((tmp_path / "one.json").read_text()) == trace.as_dict()
