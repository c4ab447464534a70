"""A device process from its start to its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError
from nnhal.remote import RemoteDevice
from nnhal_devices.registry import driver_names
from nnhal_hosting.supervision import Child, StartError
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.processes import device_process
from tests.support.raw_links import RawLink
from tests.support.resources import resources_of
from tests.support.waiting import SECONDS, wait_for_death, wait_until


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nnhal_devices", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=SECONDS, check=False)


def assert_refused(ended: subprocess.CompletedProcess[str], words: str) -> None:
    """Check that the process ended with status 2 and one line that says why."""
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    lines = [line for line in ended.stderr.splitlines() if not is_grpc_log(line)]
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("nnhal device: ")
    assert words in lines[0]


def is_grpc_log(line: str) -> bool:
    """Return whether a line is from gRPC's own logging, which cannot be silenced."""
    return line.startswith("E") and ".cc:" in line


@contextmanager
def unsupervised(endpoint: Endpoint) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that only signals end."""
    process = subprocess.Popen(command("null", "--endpoint", str(endpoint.directory)))
    try:
        wait_until(lambda: serves(endpoint), "the process serves")
        yield process
    finally:
        process.kill()
        process.wait()


def serves(endpoint: Endpoint) -> bool:
    try:
        with RemoteDevice(endpoint, "test") as device:
            return device.version() != ""
    except DeadObjectError:
        return False


def test_an_unknown_driver_is_refused(short_path: Path) -> None:
    endpoint = short_path / "there"
    known = ", ".join(driver_names())
    assert_refused(run("bogus", "--endpoint", str(endpoint)), f"no driver is called 'bogus'; there are {known}")
    assert not endpoint.exists()


@pytest.mark.parametrize(("name", "reason"), [("x" * 120, "a socket's path may have 107"), ("a,b", "has a comma")])
def test_an_endpoint_whose_name_cannot_be_used_is_refused(short_path: Path, name: str, reason: str) -> None:
    endpoint = short_path / name
    assert_refused(run("null", "--endpoint", str(endpoint)), reason)
    assert not endpoint.exists()


def test_an_endpoint_that_is_a_file_is_refused(short_path: Path) -> None:
    endpoint = short_path / "file"
    endpoint.touch()
    assert_refused(run("null", "--endpoint", str(endpoint)), "Not a directory")


@pytest.mark.parametrize("name", ["device.sock", "link.sock"])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_file_in_place_of_a_socket_is_left_alone(short_path: Path, name: str, kind: str) -> None:
    place = short_path / name
    place.mkdir() if kind == "directory" else place.touch()
    assert_refused(run("null", "--endpoint", str(short_path)), f"cannot listen at {place}")
    assert list(short_path.iterdir()) == [place]


def test_a_socket_of_another_kind_is_left_alone(short_path: Path) -> None:
    place = short_path / "link.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(place))
        other.listen()
        assert_refused(run("null", "--endpoint", str(short_path)), f"something else is at {place}")
        assert place.is_socket()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "0"), "workers '0': Input should be greater than or equal to 1"),
        (("--threads", "many"), "threads 'many': Input should be a valid integer"),
        (("--option", "sram"), "options ['sram']: Value error, got 'sram', expected KEY=VALUE"),
        (("--option", "sram=1"), "null has no option 'sram', expected none"),
        (("--log-level", "loud"), "log_level 'loud': Input should be 'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_a_setting_out_of_range_is_refused(short_path: Path, arguments: tuple[str, str], words: str) -> None:
    assert_refused(run("null", "--endpoint", str(short_path), *arguments), words)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("colour=red", "ethos_u has no option 'colour', expected accelerator, sram, memory, checked"),
        ("accelerator=u85", "option accelerator: got 'u85', expected one of u55-32"),
        ("sram=much", "option sram: 'much' is no size"),
        ("memory=/does/not/exist.toml", "No such file or directory: '/does/not/exist.toml'"),
    ],
)
def test_an_option_of_the_drivers_own_that_is_wrong_is_refused(short_path: Path, option: str, words: str) -> None:
    assert_refused(run("ethos_u", "--endpoint", str(short_path), "--option", option), words)


def test_an_endpoint_in_use_is_refused_and_its_process_goes_on(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as device:
        assert device.version()
        resources = resources_of(device.pid)
        assert_refused(
            run("null", "--endpoint", str(endpoint.directory)), f"another process is serving at {endpoint.rpc}"
        )
        endpoint.rpc.rename(short_path / "aside")
        assert_refused(
            run("null", "--endpoint", str(endpoint.directory)), f"another process is serving at {endpoint.link}"
        )
        (short_path / "aside").rename(endpoint.rpc)
        wait_until(lambda: resources_of(device.pid).within(resources), "no descriptor is left")
        addition, prepared = addition_in_ashmem(), device.prepare_model(addition_model())
        addition.check(lambda: prepared.execute(addition.request), 1, 2)
        assert serves(endpoint)


def test_the_sockets_of_a_killed_process_are_replaced(short_path: Path) -> None:
    with device_process("null", short_path) as (first, endpoint):
        os.kill(first.pid, signal.SIGKILL)
        wait_for_death(first.pid)
        assert endpoint.rpc.is_socket()
        assert endpoint.link.is_socket()
        with pytest.raises(DeadObjectError, match="no link"):
            RemoteDevice(endpoint, "test")
        with device_process("null", short_path) as (second, _), RemoteDevice(endpoint, "test") as device:
            assert device.pid == second.pid
            assert device.version()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_cleanly_with_sessions_open(short_path: Path, number: signal.Signals) -> None:
    endpoint = Endpoint(short_path / "null")
    with unsupervised(endpoint) as process, RawLink(endpoint.link) as silent, RemoteDevice(endpoint, "test") as device:
        assert device.version()
        process.send_signal(number)
        assert process.wait(SECONDS) == 0
        assert list(endpoint.directory.iterdir()) == []
        wait_until(lambda: device.gone, "the link has ended")
        assert silent.wait_for_end() is None


def test_executions_end_with_dead_object_when_their_device_is_stopped(short_path: Path) -> None:
    with device_process("cpu_ref", short_path) as (child, endpoint), RemoteDevice(endpoint, "test") as device:
        prepared, addition = device.prepare_model(addition_model()), addition_in_ashmem()
        execution, burst = prepared.create_reusable_execution(addition.request), prepared.configure_execution_burst()
        addition.check(lambda: burst.run(execution), 1, 2)
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(DeadObjectError):
            while True:
                burst.run(execution)
        assert child.stop(60) == 0


SUPERVISOR = """
import signal, sys
from nnhal_hosting.supervision import Child
child = Child("nnhal_devices", ["null", "--endpoint", sys.argv[1]])
child.wait_until_ready()
print(child.pid, flush=True)
signal.pause()
"""


def test_a_process_ends_when_its_supervisor_is_killed(short_path: Path) -> None:
    endpoint = Endpoint(short_path / "null")
    words = [sys.executable, "-c", SUPERVISOR, str(endpoint.directory)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        device = int(supervisor.stdout.readline())
        assert serves(endpoint)
        supervisor.kill()
        wait_for_death(device)
    assert list(endpoint.directory.iterdir()) == []


def test_a_supervisor_is_told_why_a_process_did_not_start(short_path: Path) -> None:
    child = Child("nnhal_devices", ["bogus", "--endpoint", str(short_path)])
    with pytest.raises(StartError, match=r"ended with status 2: nnhal device: no driver is called 'bogus'"):
        child.wait_until_ready()
    child.stop()


def test_stopping_a_supervised_process_ends_it_cleanly(short_path: Path) -> None:
    with device_process("null", short_path) as (child, endpoint):
        assert serves(endpoint)
        assert child.stop(60) == 0
        assert list(endpoint.directory.iterdir()) == []


@pytest.mark.parametrize("driver", ["cpu_acc", "gpu_acc", "cpu_ref"])
def test_a_device_opens_no_file_outside_its_endpoint(driver: str, short_path: Path) -> None:
    """Libraries in a device process send no telemetry, and so store nothing for it."""
    with device_process(driver, short_path) as (child, endpoint), RemoteDevice(endpoint, "test") as device:
        prepared, addition = device.prepare_model(addition_model()), addition_in_ashmem()
        addition.check(lambda: prepared.execute(addition.request), 1, 2)
        kinds = resources_of(child.pid).descriptors
    assert [kind for kind in kinds if Path(kind).is_file()] == []
