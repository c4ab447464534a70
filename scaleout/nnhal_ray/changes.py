"""Changes that concern all hosts: models that clients load and unload, and settings of traces and of the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolCall, ProtocolReply
from nnhal_ray.settings_calls import only_reads

_OF_MODELS: dict[str, type[wire.RepositoryModelLoadRequest | wire.RepositoryModelUnloadRequest]] = {
    "RepositoryModelLoad": wire.RepositoryModelLoadRequest,
    "RepositoryModelUnload": wire.RepositoryModelUnloadRequest,
}
_OF_SETTINGS = ("TraceSetting", "LogSettings")
_MODEL_PATH = re.compile(r"/v2/repository/models/([^/]+)/(?:load|unload)")
_SETTINGS_PATH = re.compile(r"/v2(?:/models/[^/]+)?/trace/setting|/v2/logging")
_SUCCESS = 200


@dataclass(frozen=True, slots=True)
class Change:
    """A call that every host is to answer."""

    call: ProtocolCall | HttpCall
    model: str
    """The model that it loads or unloads; empty if it changes settings."""
    made_ns: int
    """When a client made it, by the clock of the host that received it."""


@dataclass(frozen=True, slots=True)
class HostReply:
    """What one host has answered to a change."""

    node: str
    reply: ProtocolReply | HttpReply


def change_of(call: ProtocolCall | HttpCall, made_ns: int) -> Change | None:
    """A call as a change; None if it changes nothing, or nothing that other hosts have."""
    model = _model_over_grpc(call) if isinstance(call, ProtocolCall) else _model_over_http(call)
    return None if model is None else Change(call, model, made_ns)


def newest(changes: Iterable[Change]) -> list[Change]:
    """The last change of each model, in the order in which they were made."""
    by_model: dict[str, Change] = {}
    for change in sorted(changes, key=lambda change: change.made_ns):
        by_model.pop(change.model, None)
        by_model[change.model] = change
    return list(by_model.values())


def has_succeeded(reply: ProtocolReply | HttpReply) -> bool:
    """Whether a host has done what it was asked for."""
    return reply.is_ok if isinstance(reply, ProtocolReply) else reply.status == _SUCCESS


def failures(replies: Sequence[HostReply]) -> list[HostReply]:
    """The replies of hosts that have refused or failed."""
    return [reply for reply in replies if not has_succeeded(reply.reply)]


def _model_over_grpc(call: ProtocolCall) -> str | None:
    kind = _OF_MODELS.get(call.method)
    if kind is not None:
        try:
            return kind.FromString(call.message).model_name
        except DecodeError:
            return None
    return "" if call.method in _OF_SETTINGS and not only_reads(call.method, call.message) else None


def _model_over_http(call: HttpCall) -> str | None:
    if call.method != "POST":
        return None
    found = _MODEL_PATH.fullmatch(call.path)
    if found is not None:
        return unquote(found[1])
    return "" if _SETTINGS_PATH.fullmatch(call.path) else None
