"""Devices that die, that hang, that are stopped, and that compute in the call: what becomes of executions."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from nnhal.admin import EXIT_STATUS
from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.fence import FenceError, FenceState, create_fence
from nnhal.remote import RemoteDevice, RemoteExecution, RemoteLauncher
from nnhal.types import ErrorStatus, ExecutionConfig
from nnhal_conformance.channels import Launch
from nnhal_conformance.forms import gather_request, gathering
from nnhal_conformance.ways import LAUNCHES
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.calls import held_by, session_with
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, refusal
from tests.support.waiting import SECONDS, wait_until

MOMENT_NS = 100_000_000


def launched_after(endpoint: Endpoint, fence: Launch | None, stack: list[object]) -> list[Launch]:
    """Launch an addition in every way, behind a launch or a fence that never signals."""
    session = session_with(endpoint)
    signaller, pending = create_fence()
    stack += [session, signaller]
    held = held_by(session, addition_model())
    waits = pending.descriptor if fence is None or fence.fence is None else fence.fence.descriptor
    return [launch(held, addition_in_ashmem().request)([waits]) for launch in LAUNCHES.values()]


def require_failed(launched: Launch) -> None:
    assert launched.fence is not None
    with pytest.raises(FenceError):
        launched.fence.wait()


def test_a_device_that_dies_fails_the_fences_that_it_owes(short_path: Path, cpu_acc: Endpoint) -> None:
    kept: list[object] = []
    with device_process("cpu_ref", short_path) as (process, endpoint):
        owed = launched_after(endpoint, None, kept)
        dependent = launched_after(cpu_acc, owed[-1], kept)
        assert {each.fence.state for each in owed + dependent if each.fence} == {FenceState.PENDING}
        os.kill(process.pid, signal.SIGKILL)
        for each in owed + dependent:
            require_failed(each)
        for info in [each.info() for each in dependent]:
            assert ErrorStatus(info.error_status) == FAILURE
            assert re.fullmatch(r"(the fence of descriptor \d+|fence 0 of the call) is in error", info.message)


def test_a_device_that_is_stopped_cancels_waiting_executions(short_path: Path) -> None:
    kept: list[object] = []
    with device_process("cpu_ref", short_path) as (process, endpoint):
        owed = launched_after(endpoint, None, kept)
        assert process.stop(60) == 0
        for each in owed:
            require_failed(each)


def launch(launcher: RemoteLauncher, execution: RemoteExecution) -> None:
    fence = launcher.launch(execution)
    assert fence is not None
    fence.wait()
    assert launcher.info(execution).status == ErrorStatus.NONE


def test_channels_of_a_dead_device_report_its_death(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        prepared, addition = device.prepare_model(addition_model()), addition_in_ashmem()
        burst, launcher = prepared.configure_execution_burst(), device.open_launcher()
        execution = prepared.create_reusable_execution(addition.request)
        addition.check(lambda: burst.run(execution), 1, 2)
        addition.check(lambda: launch(launcher, execution), 1, 2)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(DeadObjectError):
            while True:
                burst.run(execution)
        with pytest.raises((DeadObjectError, FenceError)):
            while True:
                launch(launcher, execution)
        for call in (execution.execute, lambda: launcher.launch(execution), lambda: launcher.info(execution)):
            with pytest.raises(DeadObjectError):
                call()
        wait_until(lambda: device.gone, "the link has ended")


@pytest.fixture
def synchronous(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A device that computes in the call that launches."""
    monkeypatch.setenv("NNHAL_DEVICE_SYNCHRONOUS_FENCES", "1")
    with device_process("cpu_ref", short_path) as (_, endpoint):
        yield endpoint


@pytest.mark.contract("EX-11", "FC-01", "EX-02", "EX-13", "FC-10")
def test_a_device_that_computes_in_the_call_returns_no_fence_and_has_the_result_or_fails_the_call(
    synchronous: Endpoint,
) -> None:
    with session_with(synchronous) as session:
        held, addition = held_by(session, addition_model()), addition_in_ashmem()
        failing = held_by(session, gathering())
        done, signalled = create_fence()
        done.send()
        late, pending = create_fence()
        for way in LAUNCHES.values():
            launch_here = way(held, addition.request)
            addition.fill(1, 2)
            launched = launch_here([signalled.descriptor])
            assert launched.fence is None
            launched.require_success()
            assert set(addition.total()) == {3}
            with pytest.raises(HalError, match="GATHER"):
                way(failing, gather_request(False).request())()
            call = partial(launch_here, [pending.descriptor], deadline_ns=now_ns() + MOMENT_NS)
            refusal(call, ErrorStatus.MISSED_DEADLINE_TRANSIENT, "in time")
        late.send()
    with RemoteDevice(synchronous, "test") as device:
        prepared = device.prepare_model(addition_model())
        info = prepared.execute_fenced(addition.request, config=ExecutionConfig(measure_timing=True)).info()
        assert 0 <= info.timing_launched.time_on_device_ns <= info.timing_launched.time_in_driver_ns


@contextmanager
def refused_before_it_began() -> Iterator[None]:
    """Let a run be refused since its deadline had passed before it began, and nothing else."""
    try:
        yield
    except HalError as error:
        assert error.status is ErrorStatus.MISSED_DEADLINE_PERSISTENT, error


@pytest.mark.slow
def test_a_device_whose_driver_hangs_ends_and_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faulty_driver(tmp_path, "Hanging", endless="ADD")
    monkeypatch.setenv("NNHAL_DEVICE_STOP_SECONDS", "0.1")
    with device_process("Hanging", tmp_path, "--backend-path", str(tmp_path)) as (child, endpoint):
        with session_with(endpoint) as session:
            held = held_by(session, addition_model())
            moment = MOMENT_NS
            with pytest.raises(TransportError):
                while True:
                    with refused_before_it_began():
                        held.execute(addition_in_ashmem().request, deadline_ns=now_ns() + moment)
                    moment *= 2  # a busy machine takes longer to begin
        assert child.process.wait(SECONDS) == EXIT_STATUS
    assert re.search("an execution does not end.*prepared model 1 of nnhal-check.*ADD", capfd.readouterr().err)


@pytest.mark.slow
def test_a_run_that_takes_far_longer_than_those_before_is_ended_with_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faulty_driver(tmp_path, "Hanging", endless="ADD", runs_first=1)
    for setting in ("STOP", "HANG"):
        monkeypatch.setenv(f"NNHAL_DEVICE_{setting}_SECONDS", "0.1")
    with (
        device_process("Hanging", tmp_path, "--backend-path", str(tmp_path)) as (child, endpoint),
        session_with(endpoint) as session,
    ):
        held = held_by(session, addition_model())
        burst, bound = held.burst(), held.bind(addition_in_ashmem().request)
        burst.run(bound)
        burst.channel.send(burst.call_of(bound.handle).SerializeToString())
        never, writer = os.pipe()
        assert child.await_end(never)
        os.close(never)
        os.close(writer)
        why = r"ended itself: a run hung for \S+ s after it was to end: .*ADD.*it hangs: it has run for .*"
        words = child.ended_in_words(child.process.wait(SECONDS))
        assert re.fullmatch(why, words), words
    assert re.search("an execution does not end.*it hangs: it has run for.*ADD", capfd.readouterr().err)
