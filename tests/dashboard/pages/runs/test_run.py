"""The page of a run that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import DeadObjectError, invalid_argument
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_dashboard.pages.runs.run import with_report
from tests.support.dashboard import PageBrowser, ScriptedCollector, framework_process, framework_state
from tests.support.ended_runs import ARRIVED, ended_run, recorded_run

PLANNED: dict[str, Any] = {"value": "image", "source_step": -1, "source": "client", "destination": "npu", "bytes": 256}


def browser(*runs: framework_admin_pb2.FinishedRun, **fields: Any) -> PageBrowser:
    return PageBrowser(
        ScriptedCollector(framework_process(), **{"framework": framework_state()} | fields, finished=runs)
    )


def answer(pages: PageBrowser, method: str, value: Any) -> None:
    pages.script.answers["framework", method] = value


def recording(*runs: framework_admin_pb2.FinishedRun) -> framework_admin_pb2.GetRecordingResponse:
    return framework_admin_pb2.GetRecordingResponse(runs=runs)


def plan(**fields: Any) -> framework_admin_pb2.ExplainTargetResponse:
    edge = framework_pb2.EdgeExplanation(**PLANNED | fields)
    return framework_admin_pb2.ExplainTargetResponse(explanation=framework_pb2.ModelExplanation(edges=[edge]))


COPIED = framework_admin_pb2.CopiedBytes(clients=512, staged=96)


def test_a_run_shows_how_its_time_was_spent() -> None:
    text = browser(ended_run(4, request_id="q4", copied=COPIED)).page("/runs/4")
    for expected in (
        "120 µs",
        "40 µs",
        "1.5 ms",
        "90 µs",
        "1.9 ms",
        "512 B",
        "Copied staged",
        "96 B",
        "request",
        "q4",
        "/devices/npu",
    ):
        assert expected in text


def test_a_run_that_was_not_recorded_says_how_to_record_the_next() -> None:
    text = browser(ended_run(4)).page("/runs/4")
    assert "It was not recorded" in text
    assert 'action="/recordings"' in text
    assert "<option selected>digits</option>" in text


def test_a_failed_run_says_why() -> None:
    failed = ended_run(4, error="npu is gone", queue_ns=0, input_ns=0, infer_ns=0, output_ns=0)
    text = browser(failed).page("/runs/4")
    assert "npu is gone" in text
    assert "How its time was spent is not known, since it failed." in text


def test_a_run_that_is_not_kept_is_not_found() -> None:
    assert "no run 5 is known: it is none of the last 1 that have ended" in browser(ended_run(4)).page("/runs/5", 404)


def test_a_recorded_run_shows_its_steps_and_its_ledger_beside_the_plan() -> None:
    pages = browser(ended_run(4, recording=2))
    answer(pages, "recording", recording(ended_run(1, arrived_ns=1), recorded_run(2, arrived_ns=ARRIVED + 70)))
    answer(pages, "explain", plan(strategy="ExportToTarget"))
    text = pages.page("/runs/4")
    assert "CopyToTarget instead of ExportToTarget" in text
    assert "1.45 ms" in text
    assert 'href="/recordings/2"' in text
    assert "It was not recorded" not in text
    asked = framework_admin_pb2.PlanTarget(model="digits", version="1")
    assert ("framework", "explain", (asked,), {}) in pages.script.calls


def test_a_recorded_run_shows_what_went_over_the_wire() -> None:
    run = recorded_run(4, recording=2)
    entry = run.report.ledger[0]
    entry.copied_bytes = entry.wire_up_bytes = 4096
    pages = browser(ended_run(4, recording=2))
    answer(pages, "recording", recording(run))
    answer(pages, "explain", plan(strategy="CopyToTarget", copied_bytes=256, wire_up_bytes=256))
    text = pages.page("/runs/4")
    assert "4 KiB up the wire" in text
    assert "256 B up the wire" in text


def test_the_plan_of_a_session_s_model_is_asked_of_its_session() -> None:
    run = ended_run(4, version="", recording=2)
    models = [framework_admin_pb2.SessionModelState(session="s3", name="digits")]
    pages = browser(run, framework=framework_state(session_models=models))
    answer(pages, "recording", recording(recorded_run(1, version="")))
    answer(pages, "explain", plan(strategy="CopyToTarget", copied_bytes=256))
    text = pages.page("/runs/4")
    assert "digits, of a session" in text
    assert '<td data-label="Difference">none</td>' in text
    asked = framework_admin_pb2.PlanTarget(model="digits", session="s3")
    assert ("framework", "explain", (asked,), {}) in pages.script.calls


def test_without_its_plan_the_ledger_stands_alone() -> None:
    pages = browser(ended_run(4, recording=2))
    answer(pages, "recording", recording(recorded_run(1)))
    answer(pages, "explain", DeadObjectError("the framework is gone"))
    text = pages.page("/runs/4")
    assert "this is the ledger alone: the framework is gone" in text
    assert "CopyToTarget" in text
    assert "Difference" not in text


def test_a_recording_that_is_dropped_is_told() -> None:
    pages = browser(ended_run(4, recording=2))

    def dropped(_: int) -> None:
        invalid_argument("there is no recording 2")

    answer(pages, "recording", dropped)
    assert "the recording cannot be had" in pages.page("/runs/4")


@pytest.mark.parametrize(
    "other",
    [{"request_id": "b"}, {"model": "net"}, {"ended_ns": ARRIVED + 5}, {"arrived_ns": ARRIVED + 10**9}],
    ids=lambda fields: next(iter(fields)),
)
def test_a_report_is_of_the_very_run(other: dict[str, Any]) -> None:
    run = ended_run(4, request_id="a", recording=2)
    assert with_report(run, [recorded_run(1, **{"request_id": "a"} | other)]) is run
    found = with_report(run, [recorded_run(1, request_id="a", arrived_ns=ARRIVED + 200)])
    assert (found.number, found.recording, len(found.report.steps)) == (4, 2, 1)
