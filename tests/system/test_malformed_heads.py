"""Heads of calls that are malformed end no server that other users of the host, or other hosts, can reach."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from nnhal_hosting.asking import Unhealthy
from nnhal_hosting.listener_watch import asks_grpc
from tests.support.certificates import authority, signed
from tests.support.command import command
from tests.support.raw_http2 import PREFACE, Header, answer, connected, headers_of, opened
from tests.support.repositories import onnx_file, write
from tests.support.waiting import SECONDS

_ADDRESS = re.compile(r"([a-z]+): (\S+)")
CHECK = b"/grpc.health.v1.Health/Check"
HEADS: dict[str, list[Header]] = {
    "a path that is not UTF-8": headers_of(b"/\xff"),
    "half a path": headers_of(CHECK + b"\xc3"),
    "no path": headers_of(b""),
    "a long path": headers_of(b"/" * 3000),
    "a path with a zero byte": headers_of(b"/\0/\0"),
    "an authority that is not UTF-8": headers_of(CHECK, [(b":authority", b"\xff\xfe")]),
    "metadata that is not UTF-8": headers_of(CHECK, [(b"nnhal-session", b"\xff\xfe")]),
    "binary metadata that is not base64": headers_of(CHECK, [(b"a-bin", b"\xff\xfe")]),
    "an empty name": headers_of(CHECK, [(b"", b"x")]),
    "a timeout that is none": headers_of(CHECK, [(b"grpc-timeout", b"\xff")]),
    "an unknown encoding": headers_of(CHECK, [(b"grpc-encoding", b"\xff")]),
    "another method": headers_of(CHECK, [(b":method", b"\xff")]),
}
LINES = [b"GET /\xff HTTP/1.1\r\nHost: \xff\r\n\r\n", b"\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\xff: \xff\r\n\r\n"]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """A testbed whose devices other hosts reach too, one of them with TLS: where its listeners are."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        pair = signed(folder, "server", authority(folder, "issuer"))
        write(folder / "models", "tanh", {"1/model.onnx": onnx_file()})
        (folder / "bed.toml").write_text(
            '[[device]]\ndriver = "null"\n[dashboard]\nport = 0\n[framework]\n'
            f'model_repository = ["{folder / "models"}"]\nmodel_control_mode = "explicit"\n'
            "http_port = 0\ngrpc_port = 0\nmetrics_port = 0\n"
        )
        tls = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
        up = command(["up", str(folder / "bed.toml"), "--directory", str(folder / "bed")])[1:]
        bed = stack.enter_context(running(up, "metrics", "http", "dashboard", "ready"))
        device = ["-m", "nnhal_devices", "null", "--listen", "127.0.0.1:0"]
        plain = stack.enter_context(running([*device, "--endpoint", str(folder / "plain")], "wire"))
        secured = stack.enter_context(running([*device, "--endpoint", str(folder / "tls"), *tls], "wire"))
        yield {
            "device": f"unix:{folder / 'bed/null/device.sock'}",
            "framework": f"unix:{folder / 'bed/framework/framework.sock'}",
            "supervisor": f"unix:{folder / 'bed/supervisor/supervisor.sock'}",
            "wire": plain["wire"],
            "wire with TLS": secured["wire"],
            **bed,
        }


@contextmanager
def running(command: Sequence[str], *printed: str) -> Iterator[dict[str, str]]:
    """Run a process until it has printed these addresses, by their names, which are yielded."""
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as process:
        try:
            found: dict[str, str] = {}
            assert process.stderr is not None
            while not found.keys() >= set(printed):
                line = process.stderr.readline()
                assert line, found
                if told := _ADDRESS.fullmatch(line.strip()):
                    found[told[1]] = told[2].removeprefix("http://")
            yield found
        finally:
            process.terminate()


def opened_at(address: str, has_tls: bool) -> socket.socket:
    if not has_tls:
        return connected(address)
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    secured = context.wrap_socket(socket.create_connection((host, int(port)), timeout=SECONDS))
    secured.sendall(PREFACE)
    return secured


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["device", "framework", "supervisor", "wire", "wire with TLS"])
def test_no_malformed_head_of_a_call_ends_a_server_of_grpc(addresses: dict[str, str], listener: str) -> None:
    address, has_tls = addresses[listener], listener.endswith("TLS")
    for what, head in HEADS.items():
        with suppress(OSError), opened_at(address, has_tls) as connection:
            connection.sendall(opened(1, *head))
            answer(connection, 1)
        try:
            asks_grpc(address, has_tls)(SECONDS)
        except Unhealthy as failure:
            pytest.fail(f"after {what}: {failure}")


@pytest.mark.slow
@pytest.mark.parametrize("listener", ["metrics", "http", "dashboard"])
def test_no_malformed_head_of_a_request_ends_a_server_of_http(addresses: dict[str, str], listener: str) -> None:
    host, _, port = addresses[listener].rpartition(":")
    for line in LINES:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            connection.sendall(line)
            connection.recv(4096)
        with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            connection.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(8) == b"HTTP/1.1"
