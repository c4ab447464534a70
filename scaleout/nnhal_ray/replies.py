"""One reply in the form of the other protocol."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from nnhal_ray.messages import HttpReply, ProtocolReply
from nnhal_service.serving.errors import ErrorKind
from nnhal_service.v2.grpc.statuses import STATUS as GRPC_STATUS
from nnhal_service.v2.http.statuses import STATUS as HTTP_STATUS

_JSON = {"content-type": "application/json"}
_STATUS = {GRPC_STATUS[kind]: HTTP_STATUS.get(kind, HTTPStatus.BAD_REQUEST) for kind in ErrorKind}


def refused_over_http(status: int, message: str) -> HttpReply:
    """A reply with a status and a message, as the protocol writes it."""
    return json_reply({"error": message}, status)


def json_reply(content: object, status: int = HTTPStatus.OK) -> HttpReply:
    """A reply with JSON."""
    return HttpReply(status, _JSON, orjson.dumps(content))


def refusal_over_http(reply: ProtocolReply) -> HttpReply:
    """A refusal over gRPC as the framework's own HTTP writes it."""
    return refused_over_http(_STATUS[reply.code], reply.details)
