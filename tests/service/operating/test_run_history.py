"""The numbered runs of this process and of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nnhal.reports import NOTHING_COPIED
from nnhal.types import NO_DEADLINE, Priority
from nnhal_service.operating.run_archive import RunArchive
from nnhal_service.operating.run_history import RunHistory
from nnhal_service.serving.history.ended_runs import RUNS_KEPT, TROUBLED_KEPT, EndedRun, ProcessRuns
from nnhal_service.serving.history.live_requests import LiveRequest
from nnhal_service.serving.models.monitor import ServingMonitor


def run(ended_ns: int, model: str = "m") -> EndedRun:
    return EndedRun(model, "1", "", "", ended_ns - 1, ended_ns, None, 1, "", NOTHING_COPIED, False, "")


class Others:
    """Two processes that serve for the framework."""

    def __init__(self) -> None:
        self.ended: dict[int, list[EndedRun]] = {0: [], 1: []}
        self.cancelled: list[tuple[int, int]] = []

    def runs(self) -> Mapping[int, ProcessRuns]:
        taken, self.ended = self.ended, {0: [], 1: []}
        live = LiveRequest(7, "m", "1", "", "", 5, NO_DEADLINE, Priority.MEDIUM, False)
        return {number: ProcessRuns([live], runs) for number, runs in taken.items()}

    def cancel_request(self, process: int, number: int) -> bool | None:
        self.cancelled.append((process, number))
        return True


def test_runs_are_numbered_in_the_order_of_their_ends_whoever_ran_them(tmp_path: Path) -> None:
    monitor, others = ServingMonitor(), Others()
    history = RunHistory(monitor, lambda: others, RunArchive(tmp_path / "runs"))
    monitor.log.keep(run(20))
    others.ended = {0: [run(10)], 1: [run(15, "n"), run(25)]}
    history.look()
    monitor.log.keep(run(5))  # it is found later, and so it is numbered later
    history.look()
    assert [(number, each.ended_ns) for number, each in history.after(0)] == [
        (1, 10),
        (2, 15),
        (3, 20),
        (4, 25),
        (5, 5),
    ]
    assert [number for number, _ in history.after(3)] == [4, 5]
    assert [number for number, _ in history.after(0, "n")] == [2]


def test_the_last_runs_are_kept_with_their_numbers(tmp_path: Path) -> None:
    monitor = ServingMonitor()
    history = RunHistory(monitor, lambda: None, RunArchive(tmp_path / "runs"))
    for ended in range(RUNS_KEPT + 5):
        monitor.log.keep(run(ended))
        history.look()
    numbers = [number for number, _ in history.after(0)]
    assert (len(numbers), numbers[0], numbers[-1]) == (RUNS_KEPT, 6, RUNS_KEPT + 5)
    assert [number for number, _ in history.after(0, most=2)] == [RUNS_KEPT + 4, RUNS_KEPT + 5]


def test_requests_have_the_ids_of_their_processes_and_are_cancelled_there(tmp_path: Path) -> None:
    others = Others()
    history = RunHistory(ServingMonitor(), lambda: others, RunArchive(tmp_path / "runs"))
    assert [named.id for named in history.look()] == ["w0.r7", "w1.r7"]
    assert history.cancel("w1.r7") is True
    assert others.cancelled == [(1, 7)]
    for unknown in ("r7", "", "w1", "x1.r7", "w1.r", "w.r7", "s1.b2.3"):
        assert history.cancel(unknown) is None
    assert others.cancelled == [(1, 7)]
    assert RunHistory(ServingMonitor(), lambda: None, RunArchive(tmp_path / "runs")).cancel("w1.r7") is None


def test_runs_that_went_well_do_not_push_out_those_that_did_not(tmp_path: Path) -> None:
    monitor = ServingMonitor()
    history = RunHistory(monitor, lambda: None, RunArchive(tmp_path / "runs"))
    monitor.log.keep(run(0)._replace(error="no device"))
    monitor.log.keep(run(1)._replace(fell_back=True))
    for ended in range(2, RUNS_KEPT + 7):
        monitor.log.keep(run(ended))
    history.look()
    for ended in range(RUNS_KEPT):
        monitor.log.keep(run(10_000 + ended))
    history.look()
    kept = history.after(0)
    assert [each.run.ended_ns for each in kept[:3]] == [0, 1, 10_000]
    assert [each.number for each in kept] == sorted(each.number for each in kept)
    for ended in range(TROUBLED_KEPT + 1):
        monitor.log.keep(run(20_000 + ended)._replace(error="no device"))
        history.look()
    assert sum(each.run.is_troubled for each in history.after(0)) == TROUBLED_KEPT
