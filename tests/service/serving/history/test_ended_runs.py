"""The log of runs, and recordings."""

from __future__ import annotations

import time

import pytest

from nnhal.reports import NOTHING_COPIED, CopiedBytes, StepReport
from nnhal_service.runtime import RunReport
from nnhal_service.serving import ErrorKind, FailureReason, Finished, InferenceRequest, RequestTiming, ServingError
from nnhal_service.serving.history.ended_runs import ALL_MODELS, RUNS_KEPT, EndedRun
from nnhal_service.serving.history.run_recordings import RunRecordings
from nnhal_service.serving.models.monitor import ServingMonitor

REQUEST = InferenceRequest({}, id="r")
STEP = StepReport("cpu_acc", 10, -1, -1, 0, 0)
MEASURED = RunReport(10, 0, (STEP,), started_ns=5)
ERROR = ServingError(ErrorKind.UNAVAILABLE, "too many")


def finished(model: str, report: RunReport | None = None, error: ServingError | None = None) -> Finished:
    now = time.monotonic_ns()
    timing = None if error else RequestTiming(now, now, now, now, now, now)
    reason = FailureReason.REJECTED if error else None
    return Finished(
        model, "1", REQUEST, 1, timing, report, error, reason, now, now, {}, "me", "cpu_acc:1", CopiedBytes(0, 32, 16)
    )


def native(model: str, report: RunReport) -> EndedRun:
    now = time.monotonic_ns()
    return EndedRun(model, "", "c", "", now, now, None, 1, "cpu_acc", NOTHING_COPIED, report.fell_back, "", 0, report)


def test_ended_requests_are_kept_until_they_are_taken() -> None:
    log = ServingMonitor().log
    log.finished(finished("m", RunReport(10, 0)))
    log.finished(finished("m", error=ERROR))
    one, other = log.take()
    assert (one.model, one.version, one.client, one.request_id, one.devices) == ("m", "1", "me", "r", "cpu_acc:1")
    assert (one.copied, one.error, one.report) == (CopiedBytes(0, 32, 16), "", None)
    assert (other.error, other.timing) == ("too many", None)
    assert log.take() == []


def test_the_last_runs_are_kept() -> None:
    log = ServingMonitor().log
    for _ in range(RUNS_KEPT + 1):
        log.finished(finished("m", RunReport(10, 0)))
    assert len(log.take()) == RUNS_KEPT


def test_requests_are_measured_while_their_model_is_recorded() -> None:
    monitor = ServingMonitor()
    assert not monitor.log.began("m", "1", REQUEST)
    number = monitor.recordings.begin("m", 1)
    assert monitor.log.began("m", "1", REQUEST)
    assert not monitor.log.began("other", "1", REQUEST)
    monitor.log.finished(finished("other", MEASURED))
    monitor.log.finished(finished("m", RunReport(10, 0)))  # it had begun before
    monitor.log.finished(finished("m", MEASURED))
    assert not monitor.log.began("m", "1", REQUEST)
    recording = monitor.recordings.get(number)
    assert recording is not None and recording.left == 0
    (run,) = recording.runs
    assert (run.model, run.report, run.recording) == ("m", MEASURED, number)
    assert [(kept.recording, kept.report) for kept in monitor.log.take()] == [(0, None), (0, None), (number, None)]


def test_recordings_say_how_far_they_are_and_the_oldest_is_dropped_for_a_ninth() -> None:
    recordings = RunRecordings()
    recordings.begin("m", 2)
    recordings.begin(ALL_MODELS, 1)
    recordings.take(native("m", MEASURED))
    assert recordings.states() == [(1, "m", 1, 1), (2, ALL_MODELS, 1, 0)]
    for _ in range(7):
        recordings.begin("n", 1)
    assert [state.number for state in recordings.states()] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_all_models_are_recorded_with_their_failures_and_the_runs_of_native_clients() -> None:
    monitor = ServingMonitor()
    number = monitor.recordings.begin(ALL_MODELS, 3)
    monitor.log.finished(finished("m", error=ERROR))
    monitor.log.keep(native("n", MEASURED))
    monitor.log.keep(native("n", RunReport(10, 0, fell_back=True)))
    recording = monitor.recordings.get(number)
    assert recording is not None and recording.left == 1
    assert [(run.model, run.error) for run in recording.runs] == [("m", "too many"), ("n", "")]


def test_others_are_told_when_what_is_recorded_changes() -> None:
    recordings = RunRecordings()
    told: list[frozenset[str]] = []
    recordings.changed = lambda: told.append(frozenset(recordings.recorded))
    recordings.begin("m", 1)
    recordings.take(native("m", MEASURED))
    assert told == [frozenset({"m"}), frozenset()]


def test_eight_recordings_are_kept() -> None:
    recordings = RunRecordings()
    numbers = [recordings.begin("m", 1) for _ in range(9)]
    assert [recordings.get(number) is None for number in numbers] == [True, *[False] * 8]
    recordings.take(native("m", MEASURED))
    assert [recordings.get(number).left for number in numbers[1:]] == [0] * 8  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_a_recording_has_from_one_to_a_thousand_runs(count: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 1000"):
        RunRecordings().begin("m", count)


def test_a_model_that_falls_back_again_and_again_is_noted_once() -> None:
    notes: list[tuple[str, ...]] = []
    monitor = ServingMonitor(lambda *note: notes.append(note))
    for _ in range(3):
        monitor.log.keep(native("m", RunReport(10, 0, fell_back=True, failed_devices=("npu",))))
    monitor.log.keep(native("m", RunReport(10, 0, fell_back=True)))
    assert notes == [
        ("fell back", "m", "model m fell back: npu failed, and another device ran the steps"),
        ("fell back", "m", "model m fell back: all of it ran on the fallback device"),
    ]


def test_a_model_that_refuses_requests_since_there_are_too_many_is_noted_once() -> None:
    notes: list[tuple[str, ...]] = []
    monitor = ServingMonitor(lambda *note: notes.append(note))
    for model in ("m", "m", "other"):
        monitor.log.finished(finished(model, error=ERROR))
    monitor.log.finished(finished("m", error=ServingError(ErrorKind.INVALID_ARGUMENT, "no such input")))
    assert notes == [
        ("overloaded", "m", "model m refuses requests: too many"),
        ("overloaded", "other", "model other refuses requests: too many"),
    ]
