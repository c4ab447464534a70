"""HAProxy before two frameworks: what its own check says, and how it shares and moves requests."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.waiting import wait_until

FILE = Path(__file__).parents[2] / "deploy/haproxy.cfg"
pytestmark = pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")


def test_haproxy_takes_the_file(tmp_path: Path) -> None:
    done = subprocess.run(["haproxy", "-c", "-f", str(FILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


class _Handler(BaseHTTPRequestHandler):
    """Answers as a framework does that is ready, or drains."""

    server: Host

    def do_GET(self) -> None:
        self._answer(400 if self.server.drains else 200)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        self._answer(503 if self.server.drains else 200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


class Host(ThreadingHTTPServer):
    """Host as HAProxy sees it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.drains = False
        self.asked = 0


@dataclass(frozen=True, slots=True)
class Balanced:
    """A running HAProxy."""

    url: str
    stats: str

    def infer(self) -> int:
        try:
            with urllib.request.urlopen(f"{self.url}/v2/models/digits/infer", b"{}", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def state(self, backend: str, server: str) -> str:
        with urllib.request.urlopen(f"{self.stats}/;csv", timeout=30) as answer:
            lines: list[str] = answer.read().decode().lstrip("# ").splitlines()
        column = lines[0].split(",").index("status")
        return next(line.split(",")[column] for line in lines if line.startswith(f"{backend},{server},"))


@contextmanager
def serving(host: Host) -> Iterator[Host]:
    thread = threading.Thread(target=host.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield host
    finally:
        host.shutdown()
        thread.join()
        host.server_close()


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with ExitStack() as stack:
        yield stack.enter_context(serving(Host())), stack.enter_context(serving(Host()))


@pytest.fixture
def balanced(hosts: tuple[Host, Host], tmp_path: Path) -> Iterator[Balanced]:
    listen = {name: f"127.0.0.1:{free_port()}" for name in ("HTTP", "GRPC", "STATS")}
    environment = {f"NNHAL_LISTEN_{name}": address for name, address in listen.items()}
    for name, host in zip("AB", hosts, strict=True):
        environment[f"NNHAL_{name}_HTTP"] = environment[f"NNHAL_{name}_GRPC"] = f"127.0.0.1:{host.server_port}"
    environment["NNHAL_HAPROXY_SOCKET"] = str(tmp_path / "admin.sock")
    with subprocess.Popen(["haproxy", "-db", "-f", str(FILE)], env=os.environ | environment) as process:
        try:
            found = Balanced(f"http://{listen['HTTP']}", f"http://{listen['STATS']}")
            wait_until((tmp_path / "admin.sock").exists, "HAProxy serves")
            yield found
        finally:
            process.terminate()


def test_both_hosts_get_requests(hosts: tuple[Host, Host], balanced: Balanced) -> None:
    assert [balanced.infer() for _ in range(10)] == [200] * 10
    assert all(host.asked for host in hosts)


def test_a_host_that_drains_loses_no_request_and_gets_none_once_that_is_seen(
    hosts: tuple[Host, Host], balanced: Balanced
) -> None:
    first, second = hosts
    first.drains = True
    assert [balanced.infer() for _ in range(10)] == [200] * 10  # those that came to it went on to the other
    wait_until(lambda: balanced.state("http", "a").startswith("DOWN"), "HAProxy has seen it")
    assert balanced.state("grpc", "a").startswith("DOWN")
    assert balanced.state("http", "b").startswith("UP")
    asked = first.asked
    assert [balanced.infer() for _ in range(10)] == [200] * 10
    assert first.asked == asked
    assert second.asked >= 20
    first.drains = False
    wait_until(lambda: balanced.state("http", "a").startswith("UP"), "HAProxy has seen it")
