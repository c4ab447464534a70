"""Messages of clients of the Open Inference Protocol: bodies in JSON, heads and frames, ModelInfer, configurations."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import cast

import uvicorn
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from nnhal.inference import grpc_service_pb2, model_config_pb2
from nnhal.inference.datatypes import TensorError
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http import ConnectionLimiter, LimitedConnection
from nnhal_hosting.http2 import WaitingStreams
from nnhal_hosting.http2.connection import Http2Connection
from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_service.access import RequestMemoryBudget
from nnhal_service.repository.config_file import config_from_json, read_config
from nnhal_service.repository.source import GivenSource
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.calls import GrpcContext, Method, OpenLimit
from nnhal_service.v2.grpc.decode import cut_in_loop, cut_request, head_of, request_from_wire
from nnhal_service.v2.grpc.http2_calls import Http2Calls
from nnhal_service.v2.http.body import decompress
from nnhal_service.v2.http.decode import decode_body
from nnhal_service.v2.requested import Caller
from tests.fuzz.mutators.messages import MessageMutator
from tests.fuzz.mutators.texts import mutate_text
from tests.fuzz.target import FindingError, FuzzTarget
from tests.service.repository.test_extremes import WHOLE, load
from tests.support.http2_client import message
from tests.support.raw_http2 import PREFACE, frame, headers_of, opened
from tests.support.v2 import FakeMemory, raw_request

_REFUSALS = (ServingError, TensorError, DecodeError)
_BUDGET = 1 << 24


def _caller() -> Caller:
    return Caller("the client", FakeMemory())


def _http(data: bytes) -> None:
    """Decode a body whose first line says how long its JSON is, and how it is compressed."""
    first, _, body = data.partition(b"\n")
    size, _, encoding = first.decode("latin-1").partition(" ")
    with RequestMemoryBudget(_BUDGET).charge() as charge:
        content = decompress(body, encoding, _BUDGET, charge)
        json_size = int(size) if size.isascii() and size.isdigit() and len(size) < 20 else None
        decode_body(content, json_size, "m", _caller(), Cancellation(), 0, charge)


def _http_seeds() -> Iterator[bytes]:
    given = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2.5, -3, 4e5]}
    texts = {"name": "s", "datatype": "BYTES", "shape": [2], "data": ["a", "é"]}
    binary = {"name": "bin", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}
    asked = {"name": "y", "parameters": {"binary_data": True, "classification": 2}}
    whole = {"id": "1", "parameters": {"priority": 3, "timeout": 5}, "inputs": [given, texts], "outputs": [asked]}
    yield b"\n" + json.dumps(whole).encode()
    yield b"\n" + json.dumps({"inputs": [{**given, "shape": [4000], "data": [7] * 4000}]}).encode()
    head = json.dumps({"inputs": [binary], "parameters": {"binary_data_output": True}}).encode()
    yield b"%d \n" % len(head) + head + b"\1\2\3"


def _grpc(data: bytes) -> None:
    cut = cut_in_loop(data) or cut_request(data)
    head = head_of(cut.head)
    with RequestMemoryBudget(_BUDGET).charge(cut.parsed_bytes) as charge:
        request_from_wire(head, cut, _caller(), -1, 0, charge)


def _grpc_seeds() -> Iterator[bytes]:
    import numpy as np

    raw = raw_request("m", x=np.ones((2, 3), np.float32), s=np.array([b"a", b"bc"], object))
    raw.id = "7"
    raw.parameters["priority"].uint64_param = 3
    raw.outputs.add(name="y").parameters["classification"].int64_param = 2
    yield raw.SerializeToString()
    plain = grpc_service_pb2.ModelInferRequest(model_name="m", model_version="1")
    plain.inputs.add(name="x", datatype="INT32", shape=[3]).contents.int_contents.extend((1, -2, 3))
    plain.inputs.add(name="s", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"ab")
    yield plain.SerializeToString()


class _Transport:
    """Takes what a server writes to a connection."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = write_eof = close

    def pause_reading(self) -> None:
        """Nothing more is to come."""

    resume_reading = pause_reading

    def can_write_eof(self) -> bool:
        return False

    is_reading = can_write_eof

    def set_write_buffer_limits(self, _: int) -> None:
        """It takes all."""

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        """There is none."""


async def _reads(scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "http.disconnect":
        if not message.get("more_body"):
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})
            return


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _head(data: bytes) -> None:
    """Give a connection the bytes in pieces. It must refuse heads beyond its limits, and keep nothing longer."""

    async def talk() -> None:
        limiter = ConnectionLimiter(ConnectionLimits(head_bytes=2048, headers=16))
        transport = _Transport()
        config = uvicorn.Config(_reads, interface="asgi3", proxy_headers=False, log_config=None, access_log=False)
        connection = LimitedConnection(limiter, config, ServerState(), {}, _loop())
        connection.connection_made(cast(asyncio.Transport, transport))
        size = data[0] * 16 + 1 if data else 1
        for start in range(1, len(data), size):
            connection.data_received(data[start : start + size])
            await asyncio.sleep(0)
            if transport.is_closed:
                break
        connection.connection_lost(None)
        if limiter.open.total:
            raise FindingError("a connection that has ended is still counted")
        statuses = re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", transport.written)
        if set(statuses) - {b"100", b"204", b"400", b"431", b"501"}:
            raise FindingError(f"answered {transport.written[:60]!r}")
        if statuses and statuses[-1] >= b"400":
            raise DecodeError("refused")

    _loop().run_until_complete(talk())


def _http2(data: bytes) -> None:
    """Give a connection of gRPC frames in pieces. Whatever they are, nothing is held at the end."""

    async def talk() -> None:
        budget, waiting = RequestMemoryBudget(_BUDGET), WaitingStreams(8, 60)
        calls = Http2Calls({method.path: method for method in _METHODS}, budget, 1 << 20)
        open_ones, count = dict[Http2Connection, None](), SharedNumber()
        limits = ConnectionLimits(head_bytes=2048, headers=16)
        connection = Http2Connection(limits, 8, waiting, open_ones, {}, count, calls.open)
        transport = _Transport()
        connection.connection_made(cast(asyncio.Transport, transport))
        connection.data_received(PREFACE)
        size = data[0] * 16 + 1 if data else 1
        for start in range(1, len(data), size):
            if transport.is_closed:
                break
            connection.data_received(data[start : start + size])
            await asyncio.sleep(0)
        connection.connection_lost(None)
        if calls.tasks:
            await asyncio.wait(calls.tasks)
        if budget.held or count.total or open_ones or waiting.count:
            raise FindingError("a connection that has ended still holds something")

    _loop().run_until_complete(talk())


async def _echo(message: bytes, _: GrpcContext) -> bytes:
    return message


async def _echo_all(context: GrpcContext) -> None:
    while (message := await context.read()) is not None:
        await context.write(message)


_METHODS = (
    Method("/a.B/Unary", OpenLimit(4, "calls"), _echo),
    Method("/a.B/Stream", OpenLimit(4, "streams"), None, _echo_all),
)


def _http2_seeds() -> Iterator[bytes]:
    for path in (b"/a.B/Unary", b"/a.B/Stream", b"/a.B/None"):
        for said in (3, 0, 1 << 30):
            call = opened(1, *headers_of(path), data=message(b"abc", said))
            yield b"\xff" + call + frame(3, 0, 1, bytes(4)) + frame(6, 0, 0, bytes(8)) + frame(4, 0, 0)
    yield b"\x00" + frame(1, 0, 1, b"\0\1a\1b") + frame(9, 4, 1, b"\0\1c\1d")
    yield b"\x10" + frame(8, 0, 0, (1 << 30).to_bytes(4)) + frame(7, 0, 0, bytes(8))


def _head_seeds() -> Iterator[bytes]:
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 2\r\n"
    yield b"\xff" + head + b"Content-Length: 4\r\n\r\n{}ab"
    yield b"\x01" + head + b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\n{}ab\r\n0\r\nA: 1\r\n\r\n"
    yield b"\xff" + head + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\n{}ab"
    yield b"\xff" + b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2


def _config_text(data: bytes) -> None:
    load(read_config(GivenSource({"config.pbtxt": data, "1/model.onnx": b""}), "m"))


def _config_json(data: bytes) -> None:
    load(config_from_json(data.decode("utf-8", "replace"), "m"))


def _config() -> model_config_pb2.ModelConfig:
    return text_format.Parse(WHOLE, model_config_pb2.ModelConfig())


def _text_seeds() -> Iterator[bytes]:
    yield WHOLE.encode()


def _json_seeds() -> Iterator[bytes]:
    yield json_format.MessageToJson(_config(), preserving_proto_field_name=True).encode()


_CONFIG = MessageMutator(model_config_pb2.ModelConfig)


def _mutate_config(data: bytes, source: Random) -> bytes:
    """Change the message that a text stands for, or its tokens."""
    if source.random() < 0.5:
        return mutate_text(data, source)
    try:
        config = text_format.Parse(data.decode(), model_config_pb2.ModelConfig())
    except (text_format.ParseError, ValueError, RecursionError):
        return mutate_text(data, source)
    _CONFIG.change(config, source)
    return text_format.MessageToString(config).encode()


TARGETS = (
    FuzzTarget("v2_http", _http, _REFUSALS, _http_seeds, mutate_text),
    FuzzTarget("v2_grpc", _grpc, _REFUSALS, _grpc_seeds, MessageMutator(grpc_service_pb2.ModelInferRequest)),
    FuzzTarget("http_head", _head, (DecodeError,), _head_seeds, mutate_text),
    FuzzTarget("http2", _http2, (), _http2_seeds, mutate_text),
    FuzzTarget("config_text", _config_text, (ServingError,), _text_seeds, _mutate_config),
    FuzzTarget("config_json", _config_json, (ServingError,), _json_seeds, mutate_text),
)
