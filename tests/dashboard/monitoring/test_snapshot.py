"""Facts about a process."""

from __future__ import annotations

from dataclasses import replace

from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.problems import problems_of
from nnhal_pages.operating.snapshot import Snapshot
from tests.support.dashboard import device_process, framework_process, framework_state, supervised

_STATES = supervisor_pb2.SupervisedProcess.State


def test_the_page_of_a_process_is_by_its_kind_and_name() -> None:
    assert device_process("a b/c").page == "/devices/a%20b%2Fc"
    assert framework_process().page == "/processes/framework"


def test_a_problem_of_the_framework_leads_to_its_page() -> None:
    (problem,) = problems_of(Snapshot(processes=(framework_process(silence="it is gone"),)))
    assert problem.page == "/processes/framework"


def test_a_device_that_left_a_supervised_testbed_is_no_problem_and_any_other_is() -> None:
    gone = framework_admin_pb2.DeviceStanding(name="npu", reason="no process serves at its directory")
    snapshot = Snapshot(processes=(framework_process(),), framework=framework_state(devices=[gone]))
    (problem,) = problems_of(snapshot)
    assert problem.text == "The framework does not use npu: no process serves at its directory"
    supervisor = supervisor_pb2.ListProcessesResponse(processes=[supervised("framework", "framework")])
    assert problems_of(replace(snapshot, supervisor=supervisor)) == ()
    present = replace(snapshot, supervisor=supervisor, processes=(framework_process(), device_process("npu")))
    assert [each.text for each in problems_of(present)] == [problem.text]


def test_what_a_silent_process_said_counts_and_what_a_dead_one_said_does_not() -> None:
    silent = device_process(silence="no answer for 5 s", supervised=supervised("npu"))
    dead = device_process(silence="it is gone", supervised=supervised("npu", state=_STATES.STATE_WAITING))
    assert silent.last_said is silent.process
    assert dead.last_said is None
    assert device_process(silence="it is gone").last_said is None


def test_a_device_that_something_else_starts_is_down_while_it_is_away() -> None:
    away = supervised("npu", state=_STATES.STATE_WAITING)
    assert device_process(silence="no link", supervised=away).state == "restarting"
    away.runs_already = True
    assert device_process(silence="no link", supervised=away).state == "down"
