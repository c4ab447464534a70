"""What passes between proxies and replicas: messages and requests as bytes, so that nobody decodes them on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from nnhal.errors import NnhalError

REQUEST_ID = "x-nnhal-request"
"""The header by which HAProxy names a request, the same if it asks a second host."""


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A message of the protocol, encoded. Ray Serve takes it for one of protobuf's."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Return the bytes."""
        return self.data


@dataclass(frozen=True, slots=True)
class ProtocolCall:
    """A unary call over gRPC. ``metadata`` is by lower-case key."""

    method: str
    message: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProtocolReply:
    """The answer to a call: a message, or a status other than OK with its text."""

    message: bytes = b""
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    is_unanswered: bool = False
    """Whether the framework has not answered at all: what it was asked may be asked again."""

    @property
    def is_ok(self) -> bool:
        """Whether the call has succeeded."""
        return self.code is grpc.StatusCode.OK


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
    """The client's address."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The answer to a request over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_unanswered: bool = False
    """As that of a ProtocolReply."""


Call = ProtocolCall | HttpCall
Reply = ProtocolReply | HttpReply


class RefusedCallError(NnhalError):
    """A call that ends with a status of gRPC, which the context of the call has."""
