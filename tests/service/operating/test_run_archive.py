"""The runs that are kept for a day: which ones, of how many processes, and how many at most."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from pathlib import Path
from random import random
from typing import Any

import pytest

from nnhal.clock import now_ns
from nnhal.reports import NOTHING_COPIED
from nnhal.v1.framework_admin_pb2 import FindRunsRequest, FinishedRun
from nnhal_service.operating.run_archive import ArchivedRun, RunArchive
from nnhal_service.serving.history.ended_runs import KEPT_OF_MINUTE, MINUTE_NS, SLOW, TROUBLED, EndedRun, MinuteRuns

HOUR_NS = 60 * MINUTE_NS
EVERYTHING = FindRunsRequest(most=1000)


def ended(took_ns: int, error: str = "", model: str = "m") -> EndedRun:
    at = time.monotonic_ns()
    return EndedRun(model, "1", "", "", at - took_ns, at, None, 1, "", NOTHING_COPIED, False, error)


def archived(number: int, took_ns: int, ago_ns: int = 0, model: str = "m") -> ArchivedRun:
    at = now_ns() - ago_ns
    return ArchivedRun(SLOW, took_ns, FinishedRun(number=number, model=model, arrived_ns=at - took_ns, ended_ns=at))


def numbers(archive: RunArchive, **asked: Any) -> list[int]:
    return [run.number for run in archive.find(FindRunsRequest(most=1000, **asked))]


def test_the_slowest_runs_and_those_that_failed_are_chosen_and_some_others() -> None:
    minutes = MinuteRuns()
    for took in range(1, 20_001):
        minutes.add(ended(20_001 - took), random())  # the first are the slowest
    for _ in range(100):
        minutes.add(ended(1, "no device", "failing"), random())
    taken = minutes.take()
    slow = {each.run.ended_ns - each.run.arrived_ns for each in taken if each.reason == SLOW and each.run.model == "m"}
    assert {20_000 - place for place in range(KEPT_OF_MINUTE[SLOW])} <= slow
    assert sum(each.reason == TROUBLED for each in taken) >= KEPT_OF_MINUTE[TROUBLED]
    assert len(taken) < 1000
    assert not minutes.take()


def test_each_of_many_models_has_its_slowest_runs() -> None:
    minutes = MinuteRuns()
    for took in range(1, 21):
        for number in range(300):
            minutes.add(ended(took, model=f"model {number}"), random())
    slow = Counter(each.run.model for each in minutes.take() if each.reason == SLOW)
    assert set(slow.values()) == {KEPT_OF_MINUTE[SLOW]} and len(slow) == 300


def test_rows_that_are_too_old_do_not_push_out_new_ones(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path / "runs", most_rows=10)
    archive.add([archived(number, 1, 25 * HOUR_NS) for number in range(8)])
    archive.add([archived(number, 1, number * MINUTE_NS) for number in range(10, 20)])
    assert len(numbers(archive)) == 10


def test_of_several_processes_the_slowest_of_a_minute_are_kept(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path / "runs")
    at = now_ns()
    for process in range(3):
        runs = [archived(process * 100 + place, 1000 + place) for place in range(20)]
        for each in runs:
            each.run.ended_ns, each.run.arrived_ns = at, at - round(each.rank)
        archive.add(runs)
    places = [number % 100 for number in numbers(archive, slowest=True)]
    assert places == sorted([19, 18, 17] * 3, reverse=True)[: KEPT_OF_MINUTE[SLOW]]


def test_runs_are_found_by_model_and_time_after_another_process_has_opened_the_file(tmp_path: Path) -> None:
    RunArchive(tmp_path / "runs").add(
        [archived(1, 5000), archived(2, 9000, HOUR_NS), archived(3, 7000, HOUR_NS, "n"), archived(4, 1, 25 * HOUR_NS)]
    )
    archive = RunArchive(tmp_path / "runs")
    assert numbers(archive, slowest=True) == [2, 3, 1]
    assert numbers(archive, model="m") == [1, 2]
    hour_ago = time.time_ns() - HOUR_NS
    assert set(numbers(archive, begin_ns=hour_ago - MINUTE_NS, end_ns=hour_ago + MINUTE_NS)) == {2, 3}
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o600


def test_the_file_is_bounded(tmp_path: Path) -> None:
    archive = RunArchive(tmp_path / "runs", most_rows=10)
    for number in range(1, 31):
        archive.add([archived(number, 1, (40 - number) * MINUTE_NS)])
    assert numbers(archive) == list(range(30, 20, -1))


def test_a_damaged_file_is_begun_anew_and_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no database" * 100)
    archive = RunArchive(tmp_path / "runs")
    archive.add([archived(1, 1)])
    assert numbers(archive) == [1]
    (tmp_path / "other").write_text("another's")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    linked = RunArchive(tmp_path / "link")
    linked.add([archived(1, 1)])
    with pytest.raises((OSError, sqlite3.Error)):
        linked.find(EVERYTHING)
    assert (tmp_path / "other").read_text() == "another's"
