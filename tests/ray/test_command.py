"""``nnhal ray up``: where it listens, what it says while it waits, and its end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import tritonclient.grpc

from tests.ray.ray_cluster import ROOT
from tests.support.ports import free_port
from tests.support.served_models import sample
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until

_STARTING_SECONDS = 400.0
_ENDING_SECONDS = 120.0


@contextmanager
def command(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command, and the file of what it says."""
    with tempfile.TemporaryDirectory(prefix="nnrun-") as name:
        log = Path(name) / "log"
        ports = ["--http-port", str(free_port()), "--grpc-port", str(free_port()), "--port", str(free_port())]
        with log.open("wb") as output:
            arguments = [sys.executable, "-m", "nnhal_tools", "ray", "up", *ports, *words, "dashboard=false"]
            process = subprocess.Popen(arguments, stderr=output, stdout=output, cwd=ROOT)
        try:
            yield process, log
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(_ENDING_SECONDS)


def family_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def listening(process: psutil.Process) -> set[str]:
    """The addresses at which a process listens; none if it has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        sockets = process.net_connections("inet")
        return {each.laddr.ip.removeprefix("::ffff:") for each in sockets if each.status == psutil.CONN_LISTEN}
    return set()


def proxies() -> set[int]:
    return {each.pid for each in psutil.process_iter(["name"]) if each.info["name"] == "haproxy"}


def directories() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("nn*ray-*"))


def test_it_serves_at_the_loopback_alone_and_ends_with_all_that_it_has_started(models: Path) -> None:
    before = directories()
    with command(f"model_repository={models}", "insecure=true") as (process, log):
        wait_until(lambda: "over gRPC" in log.read_text() or process.poll() is not None, "it serves", _STARTING_SECONDS)
        said = log.read_text()
        assert process.poll() is None, said
        for stage in ("Ray starts on this host", "Ray Serve starts", "1 of 1 hosts serve"):
            assert stage in said, said
        family = family_of(process)
        assert {address for each in family for address in listening(each)} <= {"127.0.0.1", "::1"}
        grpc = re.search(r"gRPC: +(\S+)", said)
        assert grpc is not None
        with Triton("grpc", tritonclient.grpc, grpc[1]) as client:
            assert client.infer("echo_int8", {"x": sample("INT8")}).as_numpy("y").tolist() == sample("INT8").tolist()
    assert process.returncode == 0
    _, left = psutil.wait_procs(family, _ENDING_SECONDS)
    assert not left
    assert directories() <= before


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ((), "model_repository"),
        (("topology=/nowhere/topology.toml",), "/nowhere/topology.toml"),
    ],
    ids=["arguments", "topology"],
)
def test_a_host_that_cannot_come_up_ends_it_with_the_cause(models: Path, words: tuple[str, ...], cause: str) -> None:
    arguments, before = (
        ["insecure=true", *([f"model_repository={models}"] if words else []), *words],
        proxies(),
    )
    with command(*arguments) as (process, log):
        assert process.wait(_STARTING_SECONDS) == 1
        said = log.read_text()
        (told,) = (line for line in said.splitlines() if line.startswith("nnhal: "))
        assert cause in told
        assert "Traceback" not in said
        assert proxies() <= before
