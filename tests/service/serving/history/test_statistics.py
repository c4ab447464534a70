"""Counting requests."""

from __future__ import annotations

from dataclasses import replace

from nnhal.reports import CopiedBytes
from nnhal.types import RunUsage
from nnhal_service.serving import DurationStatistics, FailureReason, RequestTiming
from nnhal_service.serving.history.statistics import StatisticsRecorder


def test_a_snapshot_has_every_request_and_every_execution() -> None:
    recorder = StatisticsRecorder()
    recorder.executed(3, 10, 20, 30)
    recorder.executed(3, 1, 2, 3)
    recorder.executed(1, 100, 200, 300)
    recorder.succeeded(RequestTiming(0, 5, 15, 25, 45, 75), 2)
    recorder.succeeded(RequestTiming(0, 0, 1, 2, 3, 4), 1)
    recorder.failed(FailureReason.REJECTED, 7)
    recorder.failed(FailureReason.REJECTED, 8)
    recorder.failed(FailureReason.OTHER, 1)
    found = recorder.snapshot(pending=4)
    assert (found.inference_count, found.execution_count, found.pending) == (3, 3, 4)
    assert found.success == DurationStatistics(2, 79)
    assert found.fail == DurationStatistics(3, 16)
    assert found.queue == DurationStatistics(2, 11)
    assert found.compute_input == DurationStatistics(2, 11)
    assert found.compute_infer == DurationStatistics(2, 21)
    assert found.compute_output == DurationStatistics(2, 31)
    assert list(found.batches) == [1, 3]
    assert found.batches[3].compute_infer == DurationStatistics(2, 22)
    assert found.failures[FailureReason.REJECTED] == 2 and found.failures[FailureReason.BACKEND] == 0
    assert found.last_inference_ms > 0


def test_nothing_has_happened_yet() -> None:
    found = StatisticsRecorder().snapshot(pending=0)
    assert found.last_inference_ms == 0 and found.success == DurationStatistics() and found.batches == {}


def test_counts_that_were_taken_add_up_elsewhere() -> None:
    here, there, whole = StatisticsRecorder(), StatisticsRecorder(), StatisticsRecorder()
    for recorder in (here, whole):
        recorder.executed(2, 1, 10, 2)
        recorder.succeeded(RequestTiming(0, 1, 2, 3, 13, 15), 2)
    for recorder in (there, whole):
        recorder.executed(4, 3, 20, 4)
        recorder.succeeded(RequestTiming(0, 2, 4, 7, 27, 31), 4)
        recorder.failed(FailureReason.REJECTED, 5)
    counted = there.has_counted
    here.add(there.take())
    assert (counted, there.has_counted) == (True, False)
    assert there.snapshot(0).success.count == 0
    expected = whole.snapshot(3)
    assert replace(here.snapshot(3), last_inference_ms=0) == replace(expected, last_inference_ms=0)


def test_copies_are_counted_by_place_with_the_time_of_runs() -> None:
    recorder = StatisticsRecorder()
    recorder.executed(3, 10, 20, 30, CopiedBytes(8, 4, 9))
    recorder.ran(100, 1, CopiedBytes(1, 1, 2), False)
    recorder.counted(RunUsage(2, 0, 40), 1, CopiedBytes(0, 3, 3).times(2))
    counts = recorder.counts
    assert counts.copied == CopiedBytes(9, 11, 17) and counts.copied.total == 20
    assert (counts.executions, counts.run_ns) == (4, 160)
    assert recorder.snapshot(pending=0).copied == counts.copied
