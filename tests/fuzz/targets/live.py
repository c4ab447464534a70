"""Live processes: messages and heads over sockets, while the answers to other clients of the process are checked.

An input is a number, from which the message follows: handles and descriptors are those of a session that is open.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import EncodeError, Message

from nnhal.errors import HalError
from nnhal.inference import grpc_service_pb2
from nnhal.link import ProtocolError
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal_conformance.session import Datagrams
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.mutators.octets import mutate_octets
from tests.fuzz.mutators.texts import mutate_text
from tests.fuzz.target import FindingError, FuzzTarget
from tests.fuzz.targets import target
from tests.fuzz.targets.links import talk
from tests.support.bystanders import bystander
from tests.support.model_server import devices, model_server
from tests.support.processes import device_process
from tests.support.repositories import write
from tests.support.resources import Resources, resident_bytes, resources_of
from tests.support.served_models import echo, identity_file
from tests.support.v2 import floats, in_bytes, infer, raw_request
from tests.support.waiting import wait_until
from tests.support.well_formed import DEVICE_METHODS, Failure, WellFormed
from tests.support.well_formed_framework import FRAMEWORK_METHODS, WellFormedFramework

_INPUTS_PER_SESSION = 200
_GROWTH = 300 << 20
"""Of memory, from the first session on: what runs first is imported, and buffers are kept."""
_SECONDS = 60
_NO_ANSWER = "Deadline Exceeded"
"""What gRPC says of a call that was not answered in time."""
_MODEL = echo("FP32")
_FRAMEWORK = {name: method for name, method in FRAMEWORK_METHODS.items() if name != "WatchDevices"}
_BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}],"outputs":[{"name":"y"}]}'
_HEAD = b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
_GETS = [
    b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path
    for path in (b"/v2", b"/v2/models/m/config", b"/v2/health/ready", b"/v2/repository/index", b"/metrics", b"/docs")
]


class RefusedError(Exception):
    """A live process has refused an input, in these words."""


class _Process:
    """A live process, and what it held before."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.pid = 0
        self._tried = 0
        self._before: tuple[int, Resources] | None = None

    def read(self, data: bytes) -> None:
        """Send what follows from a number. Raises RefusedError, and anything else if the process misbehaves."""
        if self._tried % _INPUTS_PER_SESSION == 0:
            self.renew()
            if self._before is None:
                self._before = resident_bytes(self.pid), resources_of(self.pid)
        self._tried += 1
        try:
            self.send(Random(data))
        except HalError as error:  # a message before has released what this one needs
            self._tried = 0
            raise RefusedError(error.message) from error

    def renew(self) -> None:
        """Open the next session, after a look at a client that has done nothing."""
        raise NotImplementedError

    def send(self, source: Random) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Check that the process is alive, serves, and holds what it held in the beginning; end it."""
        if self._before is None:
            return
        self.renew()
        os.kill(self.pid, 0)
        memory, resources = self._before
        try:
            wait_until(lambda: resources_of(self.pid).within(resources, spare=8), "what sessions owned is released")
        except AssertionError as error:
            raise FindingError(f"the process holds {resources_of(self.pid)}, at first {resources}") from error
        grown = resident_bytes(self.pid) - memory
        self.stack.close()
        if grown > _GROWTH:
            raise FindingError(f"the process has grown by {grown >> 20} MiB, at most {_GROWTH >> 20}")


class _LiveDevice(_Process):
    """A device, whose bystander executes all the time and checks each result."""

    def __init__(self) -> None:
        super().__init__()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        self._child, self._endpoint = self.stack.enter_context(device_process("cpu_ref", folder))
        self.pid = self._child.pid
        self._bystander = self.stack.enter_context(bystander(self._endpoint))
        self._session: WellFormed | None = None
        self._runs = 0
        self._file = os.memfd_create("fuzz")

    def renew(self) -> None:
        wait_until(lambda: self._bystander.runs > self._runs, "the bystander runs")
        self._runs = self._bystander.runs
        if self._session is not None:
            self._session.close()
        self._session = WellFormed(self._endpoint)

    def send(self, source: Random) -> None:
        session = self._session
        assert session is not None
        match source.randrange(8):
            case 0:
                found = target("link")
                data = found.changed(source.choice(list(found.seeds())), source)
                with suppress(ProtocolError):
                    talk(data, self._endpoint.link, self._file)
            case 1:
                _on_channel(session.open_burst(), session.burst_call(), source)
            case 2:
                _on_channel(session.open_launch_channel(), session.launch_call(), source)
            case _:
                method = DEVICE_METHODS[source.choice(sorted(DEVICE_METHODS))]
                request = session.request_of(method)
                _change(request, source)
                _require_answer(session.answer(method, request))


class _LiveFramework(_Process):
    """A framework that serves models to clients of its own and to those of the Open Inference Protocol."""

    def __init__(self) -> None:
        super().__init__()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        write(folder, _MODEL, {"1/model.onnx": identity_file("FP32")})
        self._served = self.stack.enter_context(model_server(self.stack.enter_context(devices()), folder))
        self.pid = self._served.pid
        self._channel = self.stack.enter_context(grpc.insecure_channel(self._served.grpc))
        self._infer = in_bytes(self._channel, "ModelInfer")
        self._request = raw_request(_MODEL, x=floats(1, 2, 3, 4).reshape(1, 4))
        self._session: WellFormedFramework | None = None

    def renew(self) -> None:
        answer = infer(self._channel, self._request)
        if answer.raw_output_contents[0] != self._request.raw_input_contents[0]:
            raise FindingError(f"a bystander was answered {np.frombuffer(answer.raw_output_contents[0], np.float32)}")
        if self._session is not None:
            self._session.close()
        self._session = WellFormedFramework(self._served.endpoint, _MODEL)

    def send(self, source: Random) -> None:
        match source.randrange(5):
            case 0 | 1:
                self._grpc(source)
            case 2 | 3:
                self._http(source)
            case _:
                session = self._session
                assert session is not None
                method = _FRAMEWORK[source.choice(sorted(_FRAMEWORK))]
                request = type(session.request_of(method))()
                request.CopyFrom(session.request_of(method))
                _change(request, source)
                _require_answer(session.answer(method, request))

    def _grpc(self, source: Random) -> None:
        request = grpc_service_pb2.ModelInferRequest()
        request.CopyFrom(self._request)
        _change(request, source)
        data = request.SerializeToString()
        if source.random() < 0.2:
            data = mutate_octets(data, source)
        try:
            self._infer(data, timeout=_SECONDS)
        except grpc.RpcError as error:
            call: Any = error
            _require_answer(Failure(call.code(), call.details()))

    def _http(self, source: Random) -> None:
        if source.random() < 0.2:
            sent = mutate_text(source.choice(_GETS), source)
        elif source.random() < 0.5:
            body = mutate_text(_BODY, source)
            sent = _HEAD % (_MODEL.encode(), len(body)) + body
        else:
            sent = mutate_text(_HEAD % (_MODEL.encode(), len(_BODY)), source) + _BODY
        with socket.create_connection(("127.0.0.1", self._served.port), _SECONDS) as connection:
            answer = b""
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    answer += piece
        status, _, words = answer.partition(b"\r\n")
        if status.startswith(b"HTTP/1.1 5") and b" 503 " not in status:
            raise FindingError(f"answered {answer[:500]!r} to {sent[:500]!r}")
        if status.startswith(b"HTTP/1.1 4"):
            raise RefusedError(words.partition(b"\r\n\r\n")[2].decode("utf-8", "replace"))


def _change(message: Message, source: Random) -> None:
    mutator = MessageMutator(type(message))
    for _ in range(source.choice((1, 1, 2, 4))):
        mutator.change(message, source)


def _on_channel(channel: Datagrams, call: Message, source: Random) -> None:
    """Send calls, of which the last is well-formed, until the channel ends."""
    for _ in range(source.randint(1, 4)):
        data = MessageMutator(type(call))(call.SerializeToString(), source)[:MAX_MESSAGE_BYTES]
        channel.send(data or b"\0")
        if channel.receive() is None:
            break
    channel.close()


def _require_answer(failure: Failure | None) -> None:
    if failure is None:
        return
    if failure.status == grpc.StatusCode.UNKNOWN or failure.message == _NO_ANSWER:
        raise FindingError(f"{failure.status}: {failure.message}")
    raise RefusedError(failure.message)


@cache
def _device() -> _LiveDevice:
    return _LiveDevice()


@cache
def _framework() -> _LiveFramework:
    return _LiveFramework()


def _numbers() -> Iterator[bytes]:
    yield bytes(8)


def _another(_: bytes, source: Random) -> bytes:
    return source.randbytes(8)


TARGETS = (
    FuzzTarget(
        "live_device",
        lambda data: _device().read(data),
        (RefusedError, EncodeError),
        _numbers,
        _another,
        finish=lambda: _device().finish(),
    ),
    FuzzTarget(
        "live_framework",
        lambda data: _framework().read(data),
        (RefusedError, EncodeError),
        _numbers,
        _another,
        finish=lambda: _framework().finish(),
    ),
)
