"""``nnhal stress``: devices that keep the contract, and one that breaks it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import grpc
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.kernels import KERNELS
from nnhal.operations import OperationContext
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, OperationType
from nnhal_devices.cpu_ref import interpreter
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.host.process import host
from nnhal_devices.host.servicers.device import DeviceServicer
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.settings import DeviceSettings
from nnhal_tools.stress import Act, ClientScript, StressScript
from nnhal_tools.stress.script_file import read_script, write_script
from nnhal_tools.stress.specimens import create_specimens
from tests.support.command import nnhal
from tests.support.searching import further


def run(device: str, seconds: int, report: Path) -> tuple[int, str, dict[str, Any]]:
    """The command's exit status, output and report."""
    done = nnhal("stress", device, "--seconds", str(seconds), "--sessions", "4", "--seed", "1", "--json", str(report))
    return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize("driver", ["cpu_ref", "cpu_acc", "ethos_u", "mlip"])
def test_devices_answer_as_the_contract_says_whatever_happens(driver: str, tmp_path: Path) -> None:
    status, said, report = run(driver, further(3), tmp_path / "report.json")
    assert (status, report["violations"], report["leftovers"]) == (0, [], []), said
    modelled = ("ethos_u", "mlip")
    assert (report["workers"], report["serial_because"]) == (
        (1, "its times are modelled") if driver in modelled else (4, "")
    )
    assert report["succeeded"] > 1 / 3
    assert sum(report["sessions"].values()) >= 4


@pytest.mark.slow
def test_a_device_that_computes_wrongly_is_found(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relu = KERNELS[OperationType.RELU]

    def wrong(op: OperationContext) -> tuple[Any, ...]:
        (result,) = relu(op)
        return (result + 1,)

    monkeypatch.setattr(interpreter, "KERNELS", {**KERNELS, OperationType.RELU: wrong})
    with host(CpuRef(), Endpoint(short_path), DeviceSettings()):
        for _ in range(20):  # on a busy machine a session may end before it checks a result
            status, said, report = run(str(short_path), 2, tmp_path / "report.json")
            if status:
                break
    assert status == 1
    assert any("wrong output" in violation["text"] for violation in report["violations"])
    assert "violation: client " in said


def sequences(path: Path) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Return the numbers of what each thread of each client did."""
    return {
        (client.client, number): [(act.action, act.seed) for act in acts]
        for client in read_script(path).clients
        for number, acts in enumerate(client.threads)
    }


@pytest.mark.slow
def test_the_same_seed_gives_each_client_the_same_actions_however_they_interleave(tmp_path: Path) -> None:
    ran = []
    for name, sessions in (("first", "2"), ("second", "3")):
        path = tmp_path / name
        done = nnhal(
            *("stress", "cpu_ref", "--seconds", "2", "--seed", "7", "--sessions", sessions, "--save-script", str(path))
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ran.append(sequences(path))
    one, other = ran
    common = one.keys() & other.keys()
    assert {client for client, _ in common} >= {0, 1}
    assert sum(min(len(one[thread]), len(other[thread])) for thread in common) > 20
    for thread in common:
        length = min(len(one[thread]), len(other[thread]))
        assert one[thread][:length] == other[thread][:length]


def relu_acts(count: int) -> tuple[Act, ...]:
    """Actions that prepare a RELU as a thread's first model, and execute it."""
    names = [specimen.name for specimen in create_specimens(Random(0))]
    seeds = (seed for seed in range(10_000) if Random(seed).choice(names) == "relu")
    return tuple(Act("execute", seed) for seed in itertools.islice(seeds, count))


@pytest.fixture
def answering_wrongly(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """A device whose RELU ends with a status that no execution may have, if so many clients were there at a time.

    It looks how many there are at each ADD, which every client executes before it begins.
    """
    needed, broken = 1, False

    def add(op: OperationContext) -> tuple[Any, ...]:
        nonlocal broken
        broken = spy.usage().sessions >= needed + 2  # the spy's own, and that of the command
        return KERNELS[OperationType.ADD](op)

    def relu(op: OperationContext) -> tuple[Any, ...]:
        if broken:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "no device")
        return KERNELS[OperationType.RELU](op)

    kernels = {**KERNELS, OperationType.ADD: add, OperationType.RELU: relu}
    monkeypatch.setattr(interpreter, "KERNELS", kernels)

    def with_clients(count: int) -> Path:
        nonlocal needed
        needed = count
        return short_path

    with host(CpuRef(), Endpoint(short_path), DeviceSettings()), RemoteDevice(Endpoint(short_path), "spy") as spy:
        yield with_clients


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 2])
def test_a_violation_is_shrunk_to_the_clients_and_actions_that_it_takes(
    clients: int, answering_wrongly: Callable[[int], Path], tmp_path: Path
) -> None:
    device, given, least, report = answering_wrongly(clients), *(tmp_path / name for name in ("all", "least", "json"))
    others = tuple(Act("getters", seed) for seed in range(4))
    scripts = (ClientScript(0, 0, (others,)), ClientScript(1, 1, (others, relu_acts(2))))
    write_script(given, StressScript(2, scripts))
    options = ("--script", str(given), "--shrink", str(least), "--tries", "2", "--json", str(report))
    done = nnhal("stress", str(device), *options, timeout=400)
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(report.read_text())["shrunk"]
    left = read_script(least)
    assert told["kind"].startswith("DEVICE_UNAVAILABLE: no device")
    assert len(left.clients) == len(told["script"]["clients"]) == clients
    assert [act.action for client in left.clients for acts in client.threads for act in acts] == ["execute"]
    assert told["scripts"] <= told["runs"]
    words = {1: "1 client", 2: "2 clients"}[clients]
    assert f"shrunk to {words} and 1 action: {told['scripts']} scripts tried" in done.stdout
    assert f"the violation came in {told['shown']} of 2 more runs" in done.stdout

    again = nnhal("stress", str(device), "--script", str(least), "--tries", "3", "--json", str(report))
    assert again.returncode == 1, again.stdout + again.stderr
    assert 0 < json.loads(report.read_text())["failed_runs"] <= json.loads(report.read_text())["runs"] == 3


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
        status, said, report = run(str(short_path), 3, tmp_path / "report.json")
    assert (status, report["violations"], report["leftovers"], report["allocates"]) == (0, [], [], False), said
    assert "no Allocate: nothing was done with device buffers" in said
    about_buffers = [outcomes for action, outcomes in report["outcomes"].items() if action in ("allocate", "copy in")]
    assert all(outcomes.keys() <= {"NOT OFFERED", "CUT OFF", "CLOSED"} for outcomes in about_buffers)
    assert about_buffers
