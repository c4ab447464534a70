from __future__ import annotations

from nnhal.types import RunUsage
from nnhal_service.serving.client_runs import ClientRuns
from nnhal_service.serving.observer import FailureReason
from nnhal_service.serving.statistics import StatisticsRecorder


class Context:
    """Of a batch of four."""

    items = 4


def test_each_run_is_a_request_and_an_execution() -> None:
    recorder = StatisticsRecorder()
    runs = ClientRuns(False, recorder)
    runs.ran(Context(), 1000)
    runs.ran(Context(), 3000)
    runs.failed(Context(), 500)
    seen = recorder.snapshot(0)
    assert (seen.inference_count, seen.execution_count) == (2, 2)
    assert (seen.success.count, seen.success.ns, seen.compute_infer.ns) == (2, 4000, 4000)
    assert (seen.fail.count, seen.fail.ns, seen.failures[FailureReason.BACKEND]) == (1, 500, 1)
    assert seen.queue.ns == 0
    assert seen.last_inference_ms > 0


def test_items_count_where_there_are_batches() -> None:
    recorder = StatisticsRecorder()
    runs = ClientRuns(True, recorder)
    runs.ran(Context(), 1000)
    runs.lent(Context(), RunUsage(10, 0, 5000))
    seen = recorder.snapshot(0)
    assert (seen.inference_count, seen.execution_count) == (44, 11)
    assert seen.batches[4].compute_infer.count == 11
    assert seen.batches[4].compute_infer.ns == 6000


def test_what_was_lent_counts_when_it_is_known() -> None:
    recorder = StatisticsRecorder()
    runs = ClientRuns(False, recorder)
    runs.lent(Context(), RunUsage(0, 2, 0))
    assert recorder.snapshot(0).last_inference_ms == 0
    runs.lent(Context(), RunUsage(5, 1, 700))
    seen = recorder.snapshot(0)
    assert (seen.success.count, seen.success.ns) == (5, 700)
    assert seen.failures[FailureReason.BACKEND] == 3
