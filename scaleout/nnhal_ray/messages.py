"""Messages between Ray Serve, replicas and the framework: messages and requests as bytes, which nobody decodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import unquote

import grpc

from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.statuses import STATUS
from nnhal_service.v2.http.statuses import response_for


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message of the protocol, encoded. Ray Serve takes it for one of protobuf's."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802
        return self.data


@dataclass(frozen=True, slots=True)
class ProtocolCall:
    """A unary call over gRPC. ``headers`` are its metadata by lower-case key, ``peer`` is the client's address."""

    method: str
    message: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    peer: str = ""


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request over HTTP. ``headers`` are by lower-case name."""

    method: str
    path: str
    query: str
    """Without the question mark; empty if there is none."""
    headers: Mapping[str, str]
    body: bytes
    peer: str = ""

    @property
    def route(self) -> str:
        """The path as the framework finds its route: without escapes."""
        return unquote(self.path)


@dataclass(frozen=True, slots=True)
class ProtocolReply:
    """The answer to a call: a message, or a status other than OK with its text."""

    message: bytes = b""
    code: grpc.StatusCode = grpc.StatusCode.OK
    text: str = ""
    is_unanswered: bool = False
    """True if the framework has not answered at all: what it was asked may be asked again."""

    @property
    def is_ok(self) -> bool:
        """Return whether the call has succeeded."""
        return self.code is grpc.StatusCode.OK


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The answer to a request over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_unanswered: bool = False
    """As that of a ProtocolReply."""

    @property
    def is_ok(self) -> bool:
        """Return whether the request has succeeded."""
        return self.status == HTTPStatus.OK

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")


Call = ProtocolCall | HttpCall
Reply = ProtocolReply | HttpReply


def refused(call: Call, error: ServingError, is_unanswered: bool = False) -> Reply:
    """The reply to a call that ends with an error, as the framework's own servers write it."""
    if isinstance(call, ProtocolCall):
        return ProtocolReply(code=STATUS[error.kind], text=error.message, is_unanswered=is_unanswered)
    response = response_for(error, call.path)
    return HttpReply(response.status_code, dict(response.headers), bytes(response.body), is_unanswered)
