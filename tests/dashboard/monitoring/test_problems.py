"""Problems that an operator sees."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.monitoring.problems import problems_of
from nnhal_dashboard.monitoring.states import shown_at_work
from nnhal_pages.operating.snapshot import Severity, Snapshot
from tests.support.dashboard import device_process, framework_process, framework_state, supervised

STATES = supervisor_pb2.SupervisedProcess.State


def served(**fields: object) -> framework_admin_pb2.ServedModelState:
    """Return a version of a model that is ready, but for ``fields``."""
    return framework_admin_pb2.ServedModelState(**{"name": "net", "version": "1", "state": "READY", **fields})  # type: ignore[arg-type]


def test_nothing_is_wrong_with_a_testbed_that_works() -> None:
    processes = (device_process(supervised=supervised("npu")), framework_process())
    assert problems_of(Snapshot(processes=processes, framework=framework_state(models=[served()]))) == ()


def test_a_dashboard_without_a_testbed_says_so() -> None:
    (problem,) = problems_of(Snapshot())
    assert problem.severity == Severity.ERROR
    assert "is nnhal up?" in problem.text


@pytest.mark.parametrize(
    ("state", "severity", "said"),
    [
        (STATES.STATE_STARTING, Severity.WARNING, "npu is starting"),
        (STATES.STATE_DRAINING, Severity.WARNING, "npu is draining"),
        (STATES.STATE_DRAINED, Severity.WARNING, "npu is drained"),
        (STATES.STATE_STOPPED, Severity.WARNING, "npu is stopped"),
        (STATES.STATE_WAITING, Severity.ERROR, "killed by SIGKILL"),
    ],
)
def test_a_process_that_does_not_run_is_told(
    state: supervisor_pb2.SupervisedProcess.State.ValueType, severity: Severity, said: str
) -> None:
    process = device_process(supervised=supervised("npu", state=state, last_end="killed by SIGKILL"))
    (problem,) = problems_of(Snapshot(processes=(process,)))
    assert problem.severity == severity
    assert said in problem.text
    assert problem.page == "/devices/npu"


def test_a_process_that_keeps_dying_is_told_while_it_runs() -> None:
    process = device_process(supervised=supervised("npu", restarts=7, last_end="killed by SIGSEGV"))
    (problem,) = problems_of(Snapshot(processes=(process,)))
    assert "7 times" in problem.text and "SIGSEGV" in problem.text


@pytest.mark.parametrize(
    ("model", "severity", "said"),
    [
        (served(state="UNAVAILABLE", reason="no such operator"), Severity.ERROR, "does not serve: no such operator"),
        (served(reason="version 2 is broken"), Severity.WARNING, "version 2 is broken"),
        (served(missing=["npu"]), Severity.WARNING, "npu is missing"),
    ],
)
def test_a_model_that_does_not_run_as_it_should_is_told(
    model: framework_admin_pb2.ServedModelState, severity: Severity, said: str
) -> None:
    (problem,) = problems_of(Snapshot(processes=(framework_process(),), framework=framework_state(models=[model])))
    assert (problem.severity, problem.page) == (severity, "/models/net")
    assert said in problem.text


def test_a_model_that_an_operator_has_unloaded_is_no_problem() -> None:
    model = served(state="UNAVAILABLE", reason="unloaded")
    assert problems_of(Snapshot(processes=(framework_process(),), framework=framework_state(models=[model]))) == ()


def counted(bound: int) -> framework_admin_pb2.ModelCounts:
    """A hundred requests, which took a little less than one of the bounds."""
    durations = [0] * (len(DURATION_BOUNDS_NS) + 1)
    durations[bound] = 100
    return framework_admin_pb2.ModelCounts(requests=100, durations=durations)


def problems_of_waiting(seconds: float, counts: framework_admin_pb2.ModelCounts, *reasons: str) -> list[str]:
    """Return the problems of a model whose oldest request has waited, by reasons why devices are not used."""
    model = served(devices=["npu"], counts=counts, oldest_request_ns=int(seconds * 1e9))
    devices = [framework_admin_pb2.DeviceStanding(name="npu", reason=reason) for reason in reasons]
    state = framework_state(models=[model], devices=devices)
    problems = problems_of(Snapshot(processes=(framework_process(),), framework=state))
    assert all(problem.page == "/models/net" for problem in problems if "oldest" in problem.text)
    return [problem.text for problem in problems if "oldest" in problem.text]


def test_a_request_that_waits_is_told_with_the_device_that_does_not_answer() -> None:
    quick = counted(0)
    (text,) = problems_of_waiting(12, quick, "it does not answer; it may have been stopped")
    assert text.startswith("Model net 1: the oldest request waits 12 s, while 99 % take at most ")
    assert text.endswith("; npu: it does not answer; it may have been stopped")
    (text,) = problems_of_waiting(12, quick)
    assert text.endswith("; it runs on npu")


def test_a_request_that_is_no_longer_than_others_is_no_problem() -> None:
    slow = next(index for index, bound in enumerate(DURATION_BOUNDS_NS) if bound >= 10**9)
    assert problems_of_waiting(1.9, counted(0)) == []
    assert problems_of_waiting(5, counted(slow)) == []
    assert problems_of_waiting(5, framework_admin_pb2.ModelCounts()) != []


def problems_with_npu(at: float, *events: supervisor_pb2.ProcessEvent, last_hung_ns: int = 0, **standing: Any) -> str:
    """Return the problems at an instant, in seconds, of a device that the framework uses."""
    device = admin_pb2.GetDeviceResponse(last_hung="execution e2 was cancelled", last_hung_ns=last_hung_ns)
    state = framework_state(devices=[framework_admin_pb2.DeviceStanding(name="npu", available=True, **standing)])
    processes = (device_process(device=device if last_hung_ns else None), framework_process())
    found = problems_of(Snapshot(at=at, processes=processes, framework=state, events=events))
    assert all(problem.page == "/devices/npu" for problem in found)
    return "\n".join(problem.text for problem in found)


def test_a_device_that_is_waited_for_and_silent_is_told_as_it_happens() -> None:
    text = problems_with_npu(100.0, awaited_ns=3_200_000_000, silent_ns=1_400_000_000)
    assert "a run has waited 3.2 s and npu has not answered for 1.4 s" in text
    assert problems_with_npu(100.0, awaited_ns=3_200_000_000) == ""  # it answers, so it works


def test_what_was_done_about_a_device_that_hung_is_told_for_a_while() -> None:
    done = supervisor_pb2.ProcessEvent(at_ns=50 * 10**9, subject="npu", kind="hung", text="it hangs and was killed")
    assert problems_with_npu(100.0, done) == "00:00:50 UTC: it hangs and was killed"
    assert problems_with_npu(1000.0, done) == ""
    text = problems_with_npu(100.0, done, last_hung_ns=60 * 10**9)
    assert text == "00:01:00 UTC: on npu, execution e2 was cancelled"


def test_the_worst_comes_first() -> None:
    processes = (
        device_process("a", supervised=supervised("a", state=STATES.STATE_DRAINING)),
        device_process("b", silence="no answer for 5 s", supervised=supervised("b")),
    )
    assert [problem.severity for problem in problems_of(Snapshot(processes=processes))] == [
        Severity.ERROR,
        Severity.WARNING,
    ]


def test_a_dead_device_is_one_problem_with_what_follows_from_it() -> None:
    """Models that run by another plan and requests that failed over follow from it; what has another cause does not."""
    now = 10**12
    dead = device_process(supervised=supervised("npu", state=STATES.STATE_WAITING, last_end="killed by SIGKILL"))
    lost = framework_admin_pb2.DeviceStanding(name="npu", awaited_ns=3_200_000_000, silent_ns=1_400_000_000)
    other = served(name="other", missing=["far"])
    state = framework_state(models=[served(missing=["npu"]), other], devices=[lost])
    over = {"model": "net", "devices": ["cpu", "npu"], "fell_back": True}
    runs = [framework_admin_pb2.FinishedRun(number=number, ended_ns=now, **over) for number in (1, 2)]  # type: ignore[arg-type]
    runs.append(framework_admin_pb2.FinishedRun(number=3, ended_ns=now - 10**11, **over))  # type: ignore[arg-type]
    worst, left = problems_of(
        Snapshot(at_ns=now, processes=(dead, framework_process()), framework=state, finished=tuple(runs))
    )
    assert "killed by SIGKILL" in worst.text
    following = {each.page: each.text for each in worst.consequences}
    assert following.keys() == {"/models/net", "/devices/npu", "/runs?model=net&errors=yes"}
    assert following["/runs?model=net&errors=yes"] == "2 requests of net failed over to another device"
    assert following["/models/net"] == "Model net runs by another plan"
    assert left.page == "/models/other"


@pytest.mark.parametrize("by_framework", [True, False])
def test_a_device_that_was_drained_is_one_problem_however_many_models_do_without_it(by_framework: bool) -> None:
    state = STATES.STATE_RUNNING if by_framework else STATES.STATE_DRAINED
    standing = framework_admin_pb2.DeviceStanding(name="npu", available=True, draining=by_framework)
    models = [served(name=f"net{number}", missing=["npu"]) for number in range(50)]
    processes = (device_process(supervised=supervised("npu", state=state)), framework_process())
    (problem,) = problems_of(
        Snapshot(processes=processes, framework=framework_state(models=models, devices=[standing]))
    )
    assert problem.severity == Severity.WARNING
    assert problem.text.endswith("as was asked: it takes no new work")
    (following,) = problem.consequences
    assert following.text == "50 models run by other plans: net0, net1, net2 and 47 more"
    assert "missing" not in problem.text + following.text


def test_models_that_do_without_a_device_that_nobody_knows_are_one_problem() -> None:
    models = [served(name=f"net{number}", missing=["far"]) for number in range(2)]
    (problem,) = problems_of(Snapshot(processes=(framework_process(),), framework=framework_state(models=models)))
    assert (problem.text, problem.page) == ("2 models run by other plans: far is missing: net0, net1", "/models")


def test_a_device_that_works_is_not_silent_though_it_has_not_answered_yet() -> None:
    silent = device_process(supervised=supervised("npu"), silence="it has not answered for 2 s")
    assert silent.state == "silent"
    busy = shown_at_work(silent, ["npu"])
    assert (busy.state, busy.lack) == ("up", "it is busy: it has not answered for 2 s")
    assert shown_at_work(silent, ["cpu"]) is silent
    dead = device_process(supervised=supervised("npu", state=STATES.STATE_WAITING), silence="it does not run")
    assert shown_at_work(dead, ["npu"]) is dead
