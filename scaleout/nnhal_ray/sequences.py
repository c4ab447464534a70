"""Sequences over several hosts: one host has a sequence's state, and any host may get a request of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import grpc
import orjson

from nnhal.inference.datatypes import TensorError
from nnhal_ray.messages import REQUEST_ID, Call, ProtocolCall, ProtocolReply, Reply
from nnhal_ray.replies import refusal_over_http
from nnhal_service.serving.queue.sequences import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START
from nnhal_service.v2.http.decode import MOST_PARSED_JSON
from nnhal_service.v2.http.json_cut import cut_json

_MOST = 1 << 16
"""Sequences that a host remembers; the one that was used longest ago is forgotten."""
_OF_SEQUENCES = SEQUENCE_ID.encode()
_NOT_STARTED = "must specify the START flag"
"""In the framework's refusal of a request whose sequence it does not have."""


class SequenceName(NamedTuple):
    """A sequence of a model."""

    model: str
    id: str
    """The ``sequence_id``, as JSON writes it: 7 and "7" are two sequences."""

    def __str__(self) -> str:
        return f"sequence {self.id} of model '{self.model}'"


@dataclass(frozen=True, slots=True)
class SequenceTurn:
    """What a request says of its sequence."""

    name: SequenceName
    starts: bool
    ends: bool


def turn_of(model: str, parameters: Mapping[str, object]) -> SequenceTurn | None:
    """What the parameters of a request say; None if it is in no sequence."""
    identifier = parameters.get(SEQUENCE_ID)
    if not identifier or not isinstance(identifier, int | str):
        return None
    return SequenceTurn(
        SequenceName(model, orjson.dumps(identifier).decode() if isinstance(identifier, str) else str(identifier)),
        parameters.get(SEQUENCE_START) is True,
        parameters.get(SEQUENCE_END) is True,
    )


def turn_over_http(model: str, header: bytes) -> SequenceTurn | None:
    """The same of the JSON of a request; None for a malformed one, of which the framework says what is wrong."""
    if _OF_SEQUENCES not in header:
        return None
    try:
        head = cut_json(memoryview(header)).head if len(header) > MOST_PARSED_JSON else header
        return turn_of(model, orjson.loads(head).get("parameters", {}))
    except (TensorError, orjson.JSONDecodeError, AttributeError, TypeError):
        return None


class HeldSequences:
    """The sequences whose state one host has, for one event loop."""

    def __init__(self) -> None:
        self._last: OrderedDict[SequenceName, str] = OrderedDict()
        """The identifier of the last request of each, as HAProxy has given it."""

    def __contains__(self, name: SequenceName) -> bool:
        return name in self._last

    def begin(self, name: SequenceName) -> None:
        """A sequence starts here."""
        self._last[name] = ""
        self._last.move_to_end(name)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)

    def forget(self, name: SequenceName) -> None:
        """A sequence has ended, or starts elsewhere."""
        self._last.pop(name, None)

    def takes(self, name: SequenceName, call: Call) -> bool:
        """Whether a request of a sequence comes for the first time.

        A request comes again if the host that had passed it on to this one ended before it answered.
        """
        headers = call.metadata if isinstance(call, ProtocolCall) else call.headers
        request = headers.get(REQUEST_ID, "")
        if request and self._last.get(name) == request:
            return False
        self._last[name] = request
        self._last.move_to_end(name)
        return True


def lost(name: SequenceName, why: str) -> ProtocolReply:
    """The refusal of a request whose sequence has lost its state."""
    return ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details=f"{name} is lost: {why}; start it again")


def in_form_of(call: Call, reply: ProtocolReply) -> Reply:
    """A refusal in the protocol of its call."""
    return reply if isinstance(call, ProtocolCall) else refusal_over_http(reply)


def loss_of(reply: Reply) -> str:
    """Why the framework's answer means that the state is lost, or "" if it means something else."""
    text = reply.details if isinstance(reply, ProtocolReply) else reply.body.decode(errors="replace")
    failed = not reply.is_ok if isinstance(reply, ProtocolReply) else reply.status != 200
    if failed and _NOT_STARTED in text:
        return "its host has been started again, or nobody has asked for it for too long"
    if reply.is_unanswered:
        return "its host has ended while it ran a request of it"
    return ""
