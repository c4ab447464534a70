"""The command's arguments, output and status."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from nnhal_hosting.asking import Unhealthy, require_page
from nnhal_tools.health.command import main, require_healthy
from tests.support.certificates import authority, signed
from tests.support.command import nnhal
from tests.support.processes import device_process
from tests.support.waiting import stop, wait_for_death


def test_the_command_says_which_of_several_processes_is_not_healthy(tmp_path: Path) -> None:
    with device_process("null", tmp_path) as (_, endpoint):
        device = str(endpoint.directory)
        assert nnhal("health", device).returncode == 0
        done = nnhal("health", "--timeout", "3", device, "/nothing")
    assert (done.returncode, done.stderr) == (1, "nnhal health: /nothing: No such file or directory\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--timeout", "0", "/x"], ["--timeout", "x", "/x"], ["--timeout"], ["--timeout", "3"], ["--wait"]]
)
def test_wrong_arguments_are_told_apart_from_bad_health(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage: nnhal health" in capsys.readouterr().err


def test_help_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "TARGET is the directory" in capsys.readouterr().out


@contextmanager
def reporting(path: Path, status: health_pb2.HealthCheckResponse.ServingStatus) -> Iterator[None]:
    servicer = health.HealthServicer()
    servicer.set("", status)
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        yield
        server.stop(None).wait()


def unhealthy(target: Path | str, seconds: float = 10.0) -> str:
    with pytest.raises(Unhealthy) as failure:
        require_healthy(str(target), seconds)
    return str(failure.value)


def test_a_device_is_healthy_until_it_is_stopped_and_when_it_goes_on(tmp_path: Path) -> None:
    with device_process("null", tmp_path) as (child, endpoint):
        require_healthy(str(endpoint.directory), 10.0)
        require_healthy(str(endpoint.rpc), 10.0)
        stop(child.pid)
        assert unhealthy(endpoint.directory, 0.2) == "device.sock: no answer within 0.2 s"
        os.kill(child.pid, signal.SIGCONT)
        require_healthy(str(endpoint.directory), 10.0)
        os.kill(child.pid, signal.SIGKILL)
        wait_for_death(child.pid)
        assert unhealthy(endpoint.directory) == "device.sock: Connection refused"


def test_every_server_of_a_directory_must_serve(tmp_path: Path) -> None:
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    with reporting(tmp_path / "framework.sock", serving):
        require_healthy(str(tmp_path), 10.0)
        with reporting(tmp_path / "inference.sock", not_serving):
            assert unhealthy(tmp_path) == "inference.sock: it says NOT_SERVING"
            require_healthy(str(tmp_path / "framework.sock"), 10.0)


def test_a_server_without_the_health_service_is_told_apart_from_one_that_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "other.sock"
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        assert unhealthy(path) == "it answers without a status: expected gRPC's health service"
        server.stop(None).wait()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0"])
def test_what_does_not_speak_grpc_is_unhealthy(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "other.sock"

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(path))
        listener.listen()
        served = pool.submit(serve, listener)
        assert "expected gRPC" in unhealthy(path)
        served.result()


def test_a_path_without_a_socket_and_a_directory_without_servers_are_unhealthy(tmp_path: Path) -> None:
    assert unhealthy(tmp_path / "nothing") == "No such file or directory"
    assert unhealthy(tmp_path) == "none of device.sock, framework.sock, inference.sock is there"


def test_asking_imports_neither_grpc_nor_anything_else_that_is_heavy() -> None:
    asked = (
        "import sys; from nnhal_tools.health.command import main; main(['/nothing']); "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    heavy = {"argparse", "asyncio", "google", "grpc", "http", "nnhal", "numpy", "pathlib", "ssl", "typer", "typing"}
    assert heavy.isdisjoint(done.stdout.split())


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Answer one request. Yields the address, and what was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        connection = listener.accept()[0]
        with context.wrap_socket(connection, server_side=True) if context else connection as served:
            asked.append(served.recv(4096))
            served.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        yield f"127.0.0.1:{listener.getsockname()[1]}", asked
        served.result()


@pytest.mark.parametrize("status", ["200 OK", "204", "303 See Other"])
def test_a_page_and_a_page_elsewhere_are_healthy(status: str) -> None:
    with answering(f"HTTP/1.1 {status}\r\n\r\n".encode()) as (address, asked):
        require_page(f"http://{address}/v2/health/ready?x=1", 10.0)
    head, host, *_ = asked[0].decode().split("\r\n")
    assert (head, host) == ("GET /v2/health/ready?x=1 HTTP/1.1", f"Host: {address}")


def test_an_error_is_unhealthy_and_its_line_is_told() -> None:
    with answering(b"HTTP/1.1 503 Service Unavailable\r\n\r\n") as (address, _):  # noqa: SIM117
        with pytest.raises(Unhealthy, match=r"^it answers 'HTTP/1.1 503 Service Unavailable'$"):
            require_page(f"http://{address}/", 10.0)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-x\r\n"])
def test_what_does_not_speak_http_is_unhealthy(answer: bytes) -> None:
    with answering(answer) as (address, _), pytest.raises(Unhealthy):
        require_page(f"http://{address}", 10.0)


def test_a_silent_server_and_a_port_that_nobody_listens_at_are_unhealthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(Unhealthy, match=r"^no answer within 0.1 s$"):
            require_page(url, 0.1)
    with pytest.raises(Unhealthy, match="Connection refused"):
        require_page(url, 10.0)


def test_a_server_with_tls_is_asked_without_knowing_its_authority(tmp_path: Path) -> None:
    pair = signed(tmp_path, "server", authority(tmp_path, "authority"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", context) as (address, _):
        require_page(f"https://{address}/", 10.0)


def test_a_port_that_is_no_number_is_said() -> None:
    with pytest.raises(Unhealthy, match="got port 'http'"):
        require_page("http://localhost:http/", 10.0)
