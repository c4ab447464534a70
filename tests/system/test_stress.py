"""``nnhal stress``: devices that keep the contract, and such that break it in one way each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import grpc
import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.kernels import KERNELS
from nnhal.operations import OperationContext
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, OperationType
from nnhal_conformance.random_steps.running import steps_of
from nnhal_conformance.rule import BrokenRuleError
from nnhal_devices.cpu_ref import interpreter
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.process import host
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.launch import Launch
from nnhal_devices.host.servicers.device import DeviceServicer
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.settings import DeviceSettings
from tests.support.command import nnhal
from tests.support.faulty_drivers import write_faulty_driver
from tests.support.searching import TIMES, further

RELU = OperationType.RELU
pytestmark = pytest.mark.timeout(900)  # a violation is shrunk in some hundred attempts


def run(device: object, steps: int, folder: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    """The command's exit status, output and report."""
    report = folder / "report.json"
    words = ("--steps", str(steps), "--database", str(folder / "hypothesis"), "--json", str(report), *options)
    done = nnhal("stress", str(device), *words, timeout=880)
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())


def names(report: dict[str, Any]) -> list[str]:
    """The steps of the script of a report."""
    return re.findall(r"^state\.(\w+)\(", report["script"], re.MULTILINE)


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize("driver", ["cpu_ref", "cpu_acc", "ethos_u", "mlip"])
def test_devices_answer_as_the_contract_says_whatever_happens(driver: str, tmp_path: Path) -> None:
    drawn = ("--seed", "4") if TIMES == 1 else ()
    status, said, report = run(driver, further(300), tmp_path, *drawn)
    assert (status, report["violation"]) == (0, ""), said
    modelled = ("ethos_u", "mlip")
    assert (report["workers"], report["serial_because"]) == (
        (1, "its times are modelled") if driver in modelled else (4, "")
    )
    assert sum(report["taken"].values()) > 200


@pytest.mark.slow
def test_the_same_seed_draws_the_same_steps(tmp_path: Path) -> None:
    taken = [run("cpu_ref", 100, tmp_path, "--seed", "7")[2]["taken"] for _ in range(2)]
    assert taken[0] == taken[1]


def of_relu(change: Callable[[Array], Array]) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant a RELU whose result is changed."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(op: OperationContext) -> tuple[Any, ...]:
            (result,) = KERNELS[RELU](op)
            return (change(result),)

        monkeypatch.setattr(interpreter, "KERNELS", {**KERNELS, RELU: wrong})

    return plant


_SHARED, _BOTH = np.zeros(35, np.float32), threading.Barrier(2)


def through_shared_memory(result: Array) -> Array:
    """Leave a result where another run that overlaps leaves its own."""
    _SHARED[:] = result.reshape(-1)
    _BOTH.wait(30)
    return _SHARED.reshape(result.shape).astype(result.dtype)


def without_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(launch: Launch) -> int:
        launch.has_begun = True
        return now_ns()

    monkeypatch.setattr(Launch, "_wait", begin)


def without_spoiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceBuffer, "spoil", lambda _: None)


def with_leaking_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Burst.__init__

    def leak(burst: Burst, *arguments: Any) -> None:
        os.open(os.devnull, os.O_RDONLY)
        made(burst, *arguments)

    monkeypatch.setattr(Burst, "__init__", leak)


BUGS = {
    "a wrong output": (of_relu(lambda result: result + 1), "got output", {"open_session"}, 400),
    "launches that wait for nothing": (without_fences, "", {"open_session", "open_gate"}, 400),
    # Whatever shows it waits for ten seconds, in case that the descriptor is closed late.
    "bursts that leave a descriptor": (with_leaking_bursts, "more /dev/null", {"open_session"}, 0),
}
"""How a bug is planted, words of the violation, steps that it takes, and how many are taken to find fewer."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_device_that_breaks_the_contract_is_found(
    bug: str, short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, words, steps, shrink = BUGS[bug]
    plant(monkeypatch)
    with host(CpuRef(), Endpoint(short_path), DeviceSettings(workers=4)):
        status, said, report = run(short_path, 4000, tmp_path, "--seed", "1", "--shrink", str(shrink))
        script = tmp_path / "steps.py"
        script.write_text(report["script"])
        again = subprocess.run([sys.executable, script, short_path], capture_output=True, text=True, check=False)
    assert status == 1, said
    assert words in report["violation"], said
    assert again.returncode == 1 and "BrokenRuleError" in again.stderr, again.stderr
    assert set(names(report)) >= {*steps, "teardown"}, said
    assert f"violation: {report['violation']}" in said


@pytest.mark.slow
def test_runs_that_disturb_one_another_are_seen(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_relu(through_shared_memory)(monkeypatch)
    with host(CpuRef(), Endpoint(short_path), DeviceSettings(workers=4)):
        state = steps_of(str(short_path))
        state.open_session(small="RELU of float32")
        for _ in range(2):
            state.bind(model=state.models[0], memory="ashmem", reads=None, writes=None)
        with pytest.raises(BrokenRuleError, match="got output"):
            state.run_at_once(executions=state.executions, seed=1)
        state.teardown()


@pytest.mark.slow
def test_buffers_that_keep_what_they_held_are_seen(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spoiling(monkeypatch)
    with host(CpuRef(), Endpoint(short_path), DeviceSettings(workers=4)):
        state = steps_of(str(short_path))
        state.open_session(small="RELU of float32")
        state.allocate(model=state.models[0], roles="both", other=None)
        (buffer,) = state.buffers
        state.copy_in(buffer=buffer, memory="ashmem", seed=1, stated=False)
        state.copy_in_invalid(buffer=buffer, fault="half the size")
        with pytest.raises(BrokenRuleError, match="a copy out of a buffer"):
            state.copy_out(buffer=buffer, more=0)
        state.teardown()


@pytest.mark.slow
def test_a_violation_is_shrunk_and_kept_in_the_database(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A RELU ends with a status that no execution may have, if two clients are there."""

    def relu(op: OperationContext) -> tuple[Any, ...]:
        if spy.usage().sessions >= 5:  # the spy's own, and two of the command's
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "no device")
        return KERNELS[RELU](op)

    monkeypatch.setattr(interpreter, "KERNELS", {**KERNELS, RELU: relu})
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()), RemoteDevice(Endpoint(short_path), "spy") as spy:
        status, said, report = run(short_path, 4000, tmp_path, "--seed", "1")
        assert status == 1, said
        assert "DEVICE_UNAVAILABLE" in report["violation"]
        assert 2 <= names(report).count("open_session") < len(names(report)) < 30, said
        status, said, report = run(short_path, 50, tmp_path)
        assert status == 1 and names(report).count("open_session") >= 2, said  # out of the database


@pytest.mark.slow
def test_a_device_that_dies_is_started_again_until_the_steps_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_faulty_driver(tmp_path / "backends", "Falling", falling="MUL")
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", str(tmp_path / "backends"))
    status, said, report = run("Falling", 4000, tmp_path, "--seed", "1", "--shrink", "200")
    assert status == 1, said
    assert re.search("the device has ended the session or is gone|the link was closed", report["violation"]), said
    assert "MUL of float32" in report["script"]


def not_served(_: object, __: object, context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "")


def always_refused(*_: object) -> NoReturn:
    raise HalError(ErrorStatus.GENERAL_FAILURE, "no memory of its own")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "name", "without"),
    [(DeviceServicer, "Allocate", not_served), (HostedDevice, "allocate", always_refused)],
    ids=["not served", "always refused"],
)
def test_a_device_without_buffers_is_asked_everything_else(
    of: type, name: str, without: object, short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, without)
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()):
        status, said, report = run(short_path, 300, tmp_path)
    assert (status, report["violation"]) == (0, ""), said
    assert "no Allocate: nothing was done with device buffers" in said
    assert "run" in report["taken"] and "allocate" not in report["taken"]


@pytest.mark.slow
def test_a_device_that_cannot_be_asked_is_said(tmp_path: Path) -> None:
    done = nnhal("stress", str(tmp_path))
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr


@pytest.mark.slow
def test_pytest_takes_the_steps_too(cpu_ref: Endpoint) -> None:
    options = ["--nnhal-device", str(cpu_ref.directory), "--nnhal-steps", "60", "--pyargs", "nnhal_conformance"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "random", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
