"""Requests of sequences: their state lies on one host, and Ray Serve sends each request to any."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from nnhal.inference.datatypes import TensorError
from nnhal_ray.messages import Call, ProtocolCall
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.queue.sequences import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START
from nnhal_service.v2.grpc.decode import Head, cut_request, head_of
from nnhal_service.v2.http.decode import MOST_PARSED_JSON
from nnhal_service.v2.http.infer import JSON_SIZE
from nnhal_service.v2.http.json_cut import cut_json, parsed_json

_MOST = 1 << 16
"""Sequences that have started in one stream, and not ended."""
_JSON_SIZE = JSON_SIZE.lower()
_MAY_NAME_ONE = (SEQUENCE_ID.encode(), b"\\")
"""What the JSON of a request has that is in a sequence; the key may be in escaped characters."""
_ELSEWHERE = (
    "the state of a sequence lies on one host, and any host may get its next request: send all of its requests in one "
    "stream of gRPC (ModelStreamInfer) that starts it, or serve with max_hosts=1"
)


def require_alone(call: Call) -> None:
    """Raise ServingError with UNSUPPORTED if an inference is in a sequence. The framework refuses what is malformed."""
    try:
        given = _head_of(call.message)[1] if isinstance(call, ProtocolCall) else _of_json(call.headers, call.body)
    except (DecodeError, ServingError, TensorError):
        return
    if given.get(SEQUENCE_ID):
        raise ServingError(ErrorKind.UNSUPPORTED, f"sequence {given[SEQUENCE_ID]!r}: {_ELSEWHERE}")


class StreamSequences:
    """The sequences that have started in one stream, all of whose requests one host answers."""

    def __init__(self) -> None:
        self._started: set[tuple[str, object]] = set()

    def require_started(self, message: bytes) -> None:
        """Raise ServingError with UNSUPPORTED if a request goes on with a sequence that has not started in the stream.

        The host may have the state of an earlier one of that name.
        """
        try:
            head, given = _head_of(message)
        except (DecodeError, ServingError, TensorError):
            return
        name = head.model_name, given.get(SEQUENCE_ID)
        if not name[1]:
            return
        if given.get(SEQUENCE_START) is True and len(self._started) < _MOST:
            self._started.add(name)
        if name not in self._started:
            raise ServingError(
                ErrorKind.UNSUPPORTED, f"sequence {name[1]!r} has not started in this stream: {_ELSEWHERE}"
            )
        if given.get(SEQUENCE_END) is True:
            self._started.remove(name)


def _head_of(message: bytes) -> tuple[Head, Mapping[str, object]]:
    head = head_of(cut_request(message).head)
    return head, head.ask().parameters.others


def _of_json(headers: Mapping[str, str], body: bytes) -> Mapping[str, object]:
    """The parameters in the JSON of a request over HTTP."""
    size = headers.get(_JSON_SIZE, "")
    text = body[: int(size)] if size.isdecimal() else body
    if not any(part in text for part in _MAY_NAME_ONE):
        return {}
    content = parsed_json(cut_json(memoryview(text)).head if len(text) > MOST_PARSED_JSON else text, "not JSON")
    given = content.get("parameters") if isinstance(content, dict) else None
    return given if isinstance(given, dict) else {}
