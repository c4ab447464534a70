"""A device on another host that dies, or falls silent, is a dead device here."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import pytest

from nnhal.admin import EXIT_STATUS
from nnhal.endpoint import Endpoint, endpoints_below
from nnhal.errors import DeadObjectError, NnhalError, TransportError
from nnhal.remote import RemoteDevice
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.far_devices import Served, far_device, near_device
from tests.support.gates import PATIENT, Gate, gate_model
from tests.support.processes import WARM
from tests.support.waiting import SECONDS, stop, wait_for_death, wait_until


def test_a_device_that_is_killed_ends_this_one_and_what_it_runs(short_path: Path) -> None:
    with far_device(short_path) as far, near_device(short_path, far) as near, RemoteDevice(near.endpoint) as device:
        failures = running(device, far)
        os.kill(far.child.pid, signal.SIGKILL)
        wait_for_death(near.child.pid)
        wait_until(lambda: bool(failures), "the execution has failed")
        assert isinstance(failures[0], TransportError)
        assert near.child.process.wait(SECONDS) == EXIT_STATUS


def test_a_device_that_falls_silent_ends_this_one(short_path: Path) -> None:
    with far_device(short_path) as far, near_device(short_path, far) as near, RemoteDevice(near.endpoint) as device:
        failures = running(device, far)
        stop(far.child.pid)
        try:
            wait_for_death(near.child.pid)
            wait_until(lambda: bool(failures), "the execution has failed")
        finally:
            os.kill(far.child.pid, signal.SIGCONT)
        assert near.child.process.wait(SECONDS) == EXIT_STATUS


def test_a_device_that_is_stopped_here_holds_nothing_there(short_path: Path) -> None:
    with far_device(short_path) as far, near_device(short_path, far) as near:
        with RemoteDevice(near.endpoint) as device:
            device.prepare_model(addition_model())
            assert far.usage().sessions == 2
            stop(near.child.pid)
            wait_until(lambda: far.usage().sessions == 1, "the session of the silent device has ended")
            os.kill(near.child.pid, signal.SIGCONT)
        assert far.usage().prepared_models == 0


def test_an_operator_of_the_other_host_may_end_the_session(short_path: Path) -> None:
    with far_device(short_path) as far, near_device(short_path, far, "--option=name=npu-7") as near:
        with far.admin() as admin:
            (session,) = (each for each in admin.process().sessions if each.client_name.startswith("npu-7"))
            admin.end_session(session.id)
        wait_for_death(near.child.pid)


def test_a_device_that_is_not_there_is_named_at_the_start(short_path: Path) -> None:
    with far_device(short_path) as far:
        gone = Served(far.child, far.endpoint, far.address)
    words = ["remote", "--endpoint", str(short_path / "near"), gone.option, "--option=patience=0.3"]
    lines: list[str] = []
    child = Child("nnhal_devices", words, heard=lines.append, zygote=WARM)
    try:
        assert child.process.wait(30) == 2
        wait_until(lambda: f"tcp://{gone.address} cannot be used" in "".join(lines), "the reason is said")
        near = Endpoint(short_path / "near")
        refused = f"tcp://{gone.address} cannot be used: the connection was refused, since nobody listens there"
        assert near.trouble.startswith(refused) and endpoints_below(short_path) == [near]
        with pytest.raises(DeadObjectError, match=re.escape(refused)):
            RemoteDevice(near)
    finally:
        child.stop()


def test_a_device_that_is_back_is_used_again(short_path: Path) -> None:
    with far_device(short_path) as far:
        port = far.address
        with near_device(short_path, far, name="first") as near, RemoteDevice(near.endpoint) as device:
            device.prepare_model(addition_model())
            os.kill(far.child.pid, signal.SIGKILL)
            wait_for_death(near.child.pid)
    with (
        far_device(short_path, listen=port) as again,
        near_device(short_path, again, name="first") as near,
        RemoteDevice(near.endpoint) as device,
    ):
        assert device.prepare_model(addition_model()).execute(addition_in_ashmem().request).output_sufficient_size


def running(device: RemoteDevice, far: Served) -> list[NnhalError]:
    """Begin an execution that does not end by itself, and return what will hold its failure."""
    prepared, failures = device.prepare_model(gate_model()), list[NnhalError]()

    def execute() -> None:
        with pytest.raises(NnhalError) as caught:
            prepared.execute(Gate().request, PATIENT)
        failures.append(caught.value)

    threading.Thread(target=execute, daemon=True).start()
    with far.admin() as admin:
        wait_until(lambda: bool(admin.process().executions), "the other device executes")
    return failures
