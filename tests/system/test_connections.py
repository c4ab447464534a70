"""Connections that have ended leave nothing behind, whatever the client did: each listener, each kind of client.

NNHAL_CONNECTIONS says how many there are of each kind, each in a test of its own. With 20,000 of them a kibibyte each
is 20 MiB, which the resident memory shows too; ``pytest -s`` prints it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import link_pb2
from nnhal_hosting.supervision import Child
from tests.support import raw_http2
from tests.support.front_workers import workers_of
from tests.support.http2_client import http2_client, message
from tests.support.model_server import Devices, addresses, arguments
from tests.support.raw_links import RawLink
from tests.support.repositories import numbers, onnx_file, write
from tests.support.resources import Resources, resident_bytes, resources_of, threads_of
from tests.support.searching import TIMES
from tests.support.v2 import raw_request
from tests.support.waiting import SECONDS, settled, wait_until

_COUNTED = Path(__file__).parents[1] / "support/counted"
_FOLDER = "NNHAL_TEST_COUNTS"


@dataclass(frozen=True)
class Counted:
    """Objects of a process after a garbage collection."""

    blocks: int
    """Pieces of memory of Python's own allocator: an object has one, and a container one more."""
    kinds: Mapping[str, int]
    """Objects that can be in reference cycles, by their type."""


@contextmanager
def counting(folder: Path) -> Iterator[None]:
    """A context in which processes that are started can be counted. ``folder`` is for their counts."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", _FOLDER)}
    paths = [str(_COUNTED), *filter(None, [before["PYTHONPATH"]])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), _FOLDER: str(folder)})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def counted(pid: int, folder: Path) -> Counted:
    """Have a process collect its garbage, and count what it holds then."""
    told = folder / str(pid)
    told.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    wait_until(told.exists, f"process {pid} has counted")
    return Counted(**json.loads(told.read_text()))


Connect = Callable[[str], None]
_NAMES = count()
_NAMES_AT_A_TIME = 16
_RESET = struct.pack("ii", 1, 0)
_UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
_HEALTH = b"/grpc.health.v1.Health/Check"
_V2 = b"/inference.GRPCInferenceService/"


def _opened(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def _http(address: str, head: bytes, body: bytes = b"", status: int = 200) -> None:
    """Ask, and read the answer up to the end of the connection."""
    with _opened(address) as connection:
        connection.sendall(head + b"Host: %s\r\nConnection: close\r\n\r\n" % address.encode() + body)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:300]


def _page(address: str, path: bytes, status: int = 200, lines: bytes = b"") -> None:
    _http(address, b"GET %s HTTP/1.1\r\n%s%s" % (path, lines, _cookie(address)), status=status)


@cache
def _cookie(address: str) -> bytes:
    """The header of a browser that the dashboard knows; of others it makes a new one each time."""
    with _opened(address) as connection:
        connection.sendall(b"GET /login HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % address.encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    found = re.search(rb"^set-cookie: ([^;]*)", answer, re.IGNORECASE | re.MULTILINE)
    return b"" if found is None else b"Cookie: %s\r\n" % found[1]


def _reset(address: str, path: bytes, end: bytes = b"\r\n", is_answered: bool = False) -> None:
    """Send something, and reset the connection: before an answer, or after its first bytes."""
    with _opened(address) as connection:
        host = address.encode()
        connection.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n%s%s" % (path, host, _cookie(address), end))
        if is_answered:
            assert connection.recv(1 << 16)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _stream(address: str) -> None:
    """Have events sent, and leave."""
    with _opened(address) as connection:
        head = b"GET /live?f=overview.figures HTTP/1.1\r\nHost: %s\r\n%s\r\n"
        connection.sendall(head % (address.encode(), _cookie(address)))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def _infer(address: str, lines: bytes = b"", is_chunked: bool = False) -> None:
    tensor = {"name": "x", "shape": numbers().shape, "datatype": "FP32", "data": numbers().reshape(-1).tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    framing = b"Transfer-Encoding: chunked\r\n" if is_chunked else b"Content-Length: %d\r\n" % len(body)
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    _http(address, b"POST /v2/models/tanh/infer HTTP/1.1\r\n" + framing + lines, sent)


def _infer_directly(address: str) -> None:
    """Infer on a connection that is kept, which the client ends."""
    with _opened(address) as connection:
        body = numbers().tobytes()
        head = b"POST /v2/models/tanh/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


def _many_names(address: str) -> None:
    """Ask for models, with tokens and under traces that nobody has named before."""
    with _opened(address) as connection, connection.makefile("rb") as answers:
        for _ in range(_NAMES_AT_A_TIME):
            name = b"n%d" % next(_NAMES)
            head = b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
            trace = b"traceparent: 00-%032x-%016x-01\r\n" % (next(_NAMES), next(_NAMES))
            connection.sendall(head % (name, address.encode(), name) + trace + b"Content-Length: 2\r\n\r\n{}")
            lines = list(iter(answers.readline, b"\r\n"))
            assert lines[0].startswith(b"HTTP/1.1 404 ")
            answers.read(next(int(line.split()[1]) for line in lines if line.startswith(b"content-length:")))


def _many_called(address: str) -> None:
    """Call for models that nobody has named before."""
    with http2_client(address) as client:
        for _ in range(_NAMES_AT_A_TIME):
            request = raw_request(f"n{next(_NAMES)}", x=numbers()).SerializeToString()
            answered = client.answer(client.request(_V2 + b"ModelInfer", data=message(request)))
            assert "unknown model" in answered.message


def _refused(address: str) -> None:
    with _opened(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


def _call(address: str, path: bytes, message: bytes = b"", expected: bytes = b"") -> None:
    """Call a method of gRPC on a connection of its own."""
    with raw_http2.connected(address) as connection:
        framed = b"\0" + len(message).to_bytes(4) + message
        connection.sendall(raw_http2.opened(1, *raw_http2.headers_of(path), data=framed))
        answer = raw_http2.answer(connection, 1)
    assert expected in answer, answer


def _broken_call(address: str) -> None:
    """Begin a call, and leave within a frame."""
    with raw_http2.connected(address) as connection:
        connection.sendall(raw_http2.opened(1, *raw_http2.headers_of(_HEALTH))[:9] + b"half")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _open_stream(address: str) -> None:
    """Call a method of streams, send one message, read one, and leave."""
    message = _inference()
    framed = b"\0" + len(message).to_bytes(4) + message
    with raw_http2.connected(address) as connection:
        headers = raw_http2.headers_of(_V2 + b"ModelStreamInfer")
        begun = raw_http2.opened(1, *headers, data=framed)
        connection.sendall(begun)
        assert b"tanh" in raw_http2.answer(connection, 1)


def _inference() -> bytes:
    return raw_request("tanh", x=numbers()).SerializeToString()


def _bare(address: str) -> None:
    path = address.removeprefix("unix:")
    if path == address:
        _opened(address).close()
    else:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)


def _session(address: str) -> None:
    with RawLink(Path(address)) as link:
        assert link.hello().HasField("welcome")


def _link(address: str, message: bytes) -> None:
    with RawLink(Path(address)) as link, suppress(OSError):
        link.send(message)
        link.wait_for_end()


_WEB: Mapping[str, Connect] = {
    "bare": _bare,
    "error": partial(_page, path=b"/nothing", status=404),
    "refused": _refused,
    "half a head": partial(_reset, path=b"/half", end=b"half"),
    "aborted": partial(_reset, path=b"/metrics"),
    "reset": partial(_reset, path=b"/login", is_answered=True),
}
_RPC: Mapping[str, Connect] = {
    "bare": _bare,
    "health": partial(_call, path=_HEALTH, expected=b"\x08\x01"),
    "error": partial(_call, path=b"/nnhal/Nothing", expected=b"12"),
    "aborted": _broken_call,
    "malformed": partial(_call, path=b"/\xff"),
}
_LINK: Mapping[str, Connect] = {
    "session": _session,
    "malformed": partial(_link, message=b"\xff\xff"),
    "no hello": partial(_link, message=link_pb2.LinkRequest().SerializeToString()),
}
KINDS: Mapping[str, Mapping[str, Connect]] = {
    "http": {
        **_WEB,
        "health": partial(_page, path=b"/v2/health/live"),
        "metadata": partial(_page, path=b"/v2/models/tanh"),
        "infer": _infer,
        "infer directly": _infer_directly,
        "infer in chunks": partial(_infer, is_chunked=True),
        "upgrade": partial(_infer, lines=_UPGRADE),
        "many names": _many_names,
    },
    "metrics": {
        **_WEB,
        "page": partial(_page, path=b"/metrics"),
        "upgrade": partial(_page, path=b"/metrics", lines=_UPGRADE),
    },
    "dashboard": {
        **_WEB,
        "page": partial(_page, path=b"/"),
        "style": partial(_page, path=b"/static/nothing.css", status=404),
        "stream": _stream,
        "upgrade": partial(_page, path=b"/login", lines=_UPGRADE),
    },
    "grpc": {
        **_RPC,
        "live": partial(_call, path=_V2 + b"ServerLive", expected=b"\x08\x01"),
        "metadata": partial(_call, path=_V2 + b"ModelMetadata", message=b"\x0a\x04tanh", expected=b"FP32"),
        "infer": lambda address: _call(address, _V2 + b"ModelInfer", _inference(), b"tanh"),
        "stream": _open_stream,
        "many names": _many_called,
    },
    "framework.sock": {**_RPC, "devices": partial(_call, path=b"/nnhal.v1.FrameworkService/ListDevices")},
    "device.sock": {**_RPC, "version": partial(_call, path=b"/nnhal.v1.DeviceService/GetVersionString")},
    "link.sock": _LINK,
}
"""By listener and kind."""


BY_HAND = "NNHAL_CONNECTIONS" in os.environ
COUNT = int(os.environ.get("NNHAL_CONNECTIONS", "50"))
MOST_KEPT = 2800
"""More connections than two processes keep something of, which is 1,024 clients or runs each."""
ROUNDS = 4
"""How many there are until one leaves nothing: the second fills what is kept of the last clients, and what grows by
itself, as histories do, does not grow so much each time.
"""
SPARE_BLOCKS = 500
"""What processes come to hold by themselves in the time that a round takes: histories, and threads of pools."""
AT_A_TIME = 4
SPARE_THREADS = 8
SPARE_DESCRIPTORS = 4
MANY = 5000
"""So many connections show in the resident memory, beside what allocators keep."""
SLACK_MEGABYTES = 8


@dataclass(frozen=True)
class Listener:
    """An address, and the processes that serve there."""

    address: str
    pids: Sequence[int]
    counts: Path
    collect: Callable[[], object] = bool
    """Has the framework take the runs that have ended in its front workers."""


@dataclass(frozen=True)
class Held:
    """Objects of the processes of a listener."""

    resources: Sequence[Resources]
    threads: int
    megabytes: float
    """In RAM."""
    counted: Sequence[Counted]

    @property
    def kinds(self) -> Counter[str]:
        return sum((Counter(each.kinds) for each in self.counted), Counter())

    @property
    def blocks(self) -> int:
        return sum(each.blocks for each in self.counted)


@pytest.fixture(scope="module")
def listeners() -> Iterator[Mapping[str, Listener]]:
    """A device, a framework over it, another with front workers, and a dashboard."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        write(folder / "models", "tanh", {"1/model.onnx": onnx_file()})
        stack.enter_context(counting(folder))

        def started(module: str, *words: str) -> Child:
            child = Child(module, words)
            stack.callback(child.stop)
            return child

        device_at = Endpoint(folder / "cpu_ref")
        device = started("nnhal_devices", "cpu_ref", "--endpoint", str(device_at.directory))
        dashboard = started("nnhal_dashboard", "--directory", str(folder), "--port", "0")
        over = Devices({"cpu_ref": device_at}, {})
        device.wait_until_ready()
        words = partial(arguments, repository=folder / "models", over=over)
        plain = started("nnhal_service", *words(folder / "framework"))
        shared = started("nnhal_service", *words(folder / "shared"), "--front-workers", "2")
        for child in (plain, shared, dashboard):
            child.wait_until_ready()
        wait_until(lambda: len(addresses(plain)) == len(addresses(shared)) == 3, "the addresses are printed")
        workers = workers_of(shared)
        page = dashboard.said().split("dashboard: http://")[1].split()[0]
        one = [plain.pid]

        def collect() -> None:
            with FrameworkAdmin(Endpoint(folder / "shared", "framework"), shared.admin_key) as operator:
                operator.runs()

        yield {
            name: Listener(address, pids, folder, collect if name.endswith("of workers") else bool)
            for name, address, pids in (
                *((name, addresses(plain)[name], one) for name in ("http", "grpc", "metrics")),
                *((f"{name} of workers", addresses(shared)[name], [shared.pid, *workers]) for name in ("http", "grpc")),
                ("dashboard", page, [dashboard.pid]),
                ("framework.sock", f"unix:{folder / 'framework/framework.sock'}", one),
                ("framework's link.sock", str(folder / "framework/link.sock"), one),
                ("device.sock", f"unix:{device_at.directory / 'device.sock'}", [device.pid]),
                ("device's link.sock", str(device_at.directory / "link.sock"), [device.pid]),
            )
        }


def held(listener: Listener) -> Held:
    """Return what the processes hold when nothing of a connection changes any more."""
    listener.collect()
    resources = settled(lambda: [resources_of(pid) for pid in listener.pids])
    told = [counted(pid, listener.counts) for pid in listener.pids]
    threads = sum(map(threads_of, listener.pids))
    return Held(resources, threads, sum(map(resident_bytes, listener.pids)) / (1 << 20), told)


def connect(kinds: Sequence[Connect], listener: Listener, count: int) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for _ in pool.map(lambda at: kinds[at % len(kinds)](listener.address), range(count * len(kinds))):
            pass


LISTENERS = {
    "http": "http",
    "http of workers": "http",
    "metrics": "metrics",
    "dashboard": "dashboard",
    "grpc": "grpc",
    "grpc of workers": "grpc",
    "framework.sock": "framework.sock",
    "device.sock": "device.sock",
    "framework's link.sock": "link.sock",
    "device's link.sock": "link.sock",
}
"""Each listener, and which connections it takes."""
TWINS = {"http", "grpc", "framework.sock", "device's link.sock"}
"""Listeners of the code that others of them have too, which ``make sweep`` tests."""
IN_SWEEP = [pytest.mark.search, pytest.mark.skipif(TIMES == 1 and not BY_HAND, reason="a twin, for make sweep")]
CASES = [
    pytest.param(name, kinds, id=f"{name}, {', '.join(kinds)}", marks=IN_SWEEP if name in TWINS else [])
    for name, kind in LISTENERS.items()
    for kinds in ([(each,) for each in KINDS[kind]] if BY_HAND else [tuple(KINDS[kind])])
]


@pytest.mark.slow
@pytest.mark.timeout(600 + COUNT)
@pytest.mark.parametrize(("name", "kinds"), CASES)
def test_connections_that_have_ended_leave_nothing(
    listeners: Mapping[str, Listener], name: str, kinds: tuple[str, ...]
) -> None:
    listener, asked = listeners[name], [KINDS[LISTENERS[name]][kind] for kind in kinds]
    connect(asked, listener, 20 if BY_HAND else 4)  # what is made once is there
    before = held(listener)
    for turn in range(ROUNDS):
        count = max(COUNT, MOST_KEPT // len(kinds)) if turn == 1 else COUNT
        connect(asked, listener, count)
        after = held(listener)
        grown = {what: more for what, more in (after.kinds - before.kinds).items() if more >= count / 2}
        blocks = after.blocks - before.blocks
        if blocks <= 0:  # tuples of plain values are counted only until a collection stops tracking them
            grown.pop("builtins.tuple", None)
        memory = f"{before.megabytes:.1f} to {after.megabytes:.1f} MiB"
        print(f"\n{name}, {', '.join(kinds)}, {count}: {memory}, {blocks} blocks, {grown}", flush=True)
        most = max(SPARE_BLOCKS, count * len(kinds) // 2)
        if not grown and blocks < most:
            break
        before = after
    assert not grown
    assert blocks < most
    assert after.threads <= before.threads + SPARE_THREADS
    assert all(now.within(then, SPARE_DESCRIPTORS) for now, then in zip(after.resources, before.resources, strict=True))
    if count >= MANY:
        assert after.megabytes < before.megabytes + SLACK_MEGABYTES
