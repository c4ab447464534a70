from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal.v1 import admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.events import MARKS, faults_between, mark_of, moment_page, written
from nnhal_pages.charts.marks import SIGNS
from nnhal_pages.operating.snapshot import Snapshot
from nnhal_pages.operating.table import read_instant
from tests.support.dashboard import device_process

PROTO = Path(__file__).parents[3] / "proto/nnhal/v1/supervisor.proto"


def faulty(count: int, at: float, *events: supervisor_pb2.ProcessEvent) -> Snapshot:
    device = device_process(device=admin_pb2.GetDeviceResponse(workers=1, injected_faults=count))
    return Snapshot(at=at, processes=(device,), events=events)


def test_every_kind_of_event_has_a_mark_with_a_sign() -> None:
    assert set(MARKS.values()) <= set(SIGNS)
    message = PROTO.read_text().split("message ProcessEvent {")[1].split("string kind")[0]
    told = message[message.index("// started") :].replace("//", " ").replace("\n", " ")
    kinds = {re.sub(r"of the framework also", "", word).strip(" .;") for word in re.split(r",|;| or ", told)}
    assert {re.sub(r"\s+", " ", kind).strip() for kind in kinds if kind.strip()} <= set(MARKS)


def test_a_kind_that_is_not_known_is_marked_all_the_same() -> None:
    assert mark_of(supervisor_pb2.ProcessEvent(kind="exploded")) == "failure"


def test_a_moment_is_some_seconds_around_an_instant() -> None:
    event = supervisor_pb2.ProcessEvent(at_ns=1_800_000_010 * 10**9)
    assert moment_page(event) == "/runs?from=2027-01-15T08%3A00%3A05Z&until=2027-01-15T08%3A00%3A15Z"


@pytest.mark.parametrize("text", ["2027-01-15T08:00:05Z", "2027-01-15T08:00:05", "2027-01-15T09:00:05+01:00"])
def test_an_instant_is_read_as_it_is_written(text: str) -> None:
    assert read_instant("from", text) == 1_800_000_005 * 10**9
    assert written(1_800_000_005.0) == "2027-01-15T08:00:05Z"


def test_faults_that_a_device_injects_are_an_event() -> None:
    (event,) = faults_between(faulty(2, 100.0), faulty(5, 101.0))
    assert (event.subject, event.kind, event.at_ns) == ("npu", "fault", 101 * 10**9)
    assert event.text == "device npu injected 3 faults, as it was told to"


def test_one_fault_after_the_other_is_told_once_in_ten_seconds() -> None:
    (first,) = faults_between(faulty(2, 100.0), faulty(3, 101.0))
    assert not list(faults_between(faulty(3, 101.0, first), faulty(4, 102.0)))
    assert len(list(faults_between(faulty(4, 111.0, first), faulty(5, 112.0)))) == 1


def test_a_device_that_was_started_again_has_injected_nothing() -> None:
    assert not list(faults_between(faulty(5, 100.0), faulty(0, 101.0)))
    assert not list(faults_between(Snapshot(at=100.0), faulty(5, 101.0)))
