"""``nnhal up`` as a process that another one supervises."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import supervisor_pb2
from nnhal_hosting.supervision import Child
from tests.support.waiting import wait_until


def begun(directory: Path) -> Child:
    return Child("nnhal_tools", ["up", "--directory", str(directory), "--no-dashboard"])


def test_it_tells_when_it_serves_and_ends_with_its_supervisor(short_path: Path) -> None:
    child = begun(short_path)
    child.wait_until_ready()
    processes = psutil.Process(child.pid).children(recursive=True)
    (zygote,) = psutil.Process(child.pid).children()
    *devices, framework = zygote.children()
    assert ["nnhal_devices" in each.cmdline() for each in devices] == [True, True]
    assert "nnhal_service" in framework.cmdline()
    assert child.stop(60) == 0
    assert not any(process.is_running() for process in processes)


def test_it_ends_with_its_supervisor_before_it_serves(short_path: Path) -> None:
    child = begun(short_path)
    wait_until(lambda: bool(psutil.Process(child.pid).children()), "it has begun to start devices")
    processes = psutil.Process(child.pid).children(recursive=True)
    assert child.stop() == 1
    assert not any(process.is_running() for process in processes)


def test_it_gets_the_settings_of_the_one_who_starts_it(short_path: Path) -> None:
    words = ["up", "--directory", str(short_path), "--no-dashboard"]
    child = Child("nnhal_tools", words, variables={"NNHAL_SERVICE_MODEL_REPOSITORY": '["/nowhere"]'})
    try:
        wait_until(lambda: "/nowhere" in child.said(), "the framework has said what is wrong")
    finally:
        child.stop()


DEVICE = "cpu_ref"
RUNNING = supervisor_pb2.SupervisedProcess.STATE_RUNNING


def state(supervisor: SupervisorControl) -> supervisor_pb2.SupervisedProcess:
    return next(process for process in supervisor.processes().processes if process.name == DEVICE)


def await_return(supervisor: SupervisorControl, dead: int) -> None:
    """Wait until the device that has died serves again."""
    wait_until(lambda: state(supervisor).pid != dead and state(supervisor).state == RUNNING, "the device is back")


@contextmanager
def supervised(directory: Path, stderr: int | None = None) -> Iterator[tuple[Child, SupervisorControl]]:
    child = Child("nnhal_tools", ["up", "--directory", str(directory), "--no-dashboard"], stderr)
    try:
        child.wait_until_ready()
        with SupervisorControl(directory) as supervisor:
            yield child, supervisor
    finally:
        child.stop()


@pytest.mark.slow
def test_it_survives_a_lack_of_descriptors_and_says_what_it_waits_for(short_path: Path) -> None:
    with supervised(short_path) as (child, supervisor):
        pid = state(supervisor).pid
        _, most = resource.prlimit(child.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (16, most))
        psutil.Process(pid).kill()
        wait_until(lambda: "Too many open files" in state(supervisor).last_end, "it cannot be started")
        wait_until(lambda: state(supervisor).waits_for.startswith("its next start in"), "it is tried again")
        assert f"{DEVICE}: it cannot be started: Too many open files; starting it again in" in child.said()
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (most, most))
        await_return(supervisor, pid)


@pytest.mark.slow
def test_it_survives_a_log_that_nobody_reads(short_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, bytes(4096))
        with supervised(short_path, writer) as (_, supervisor):
            for _ in range(2):
                pid = state(supervisor).pid
                psutil.Process(pid).kill()
                await_return(supervisor, pid)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.slow
def test_it_survives_a_log_that_cannot_be_written(short_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with supervised(short_path, full) as (_, supervisor):
            pid = state(supervisor).pid
            psutil.Process(pid).kill()
            await_return(supervisor, pid)
    finally:
        os.close(full)
