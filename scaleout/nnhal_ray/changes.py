"""Changes that concern all hosts: models that clients load and unload, and settings of traces and of the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import Call, HttpCall, ProtocolCall, Reply, refused
from nnhal_service.serving.errors import ErrorKind, ServingError

_OF_MODELS: dict[str, type[wire.RepositoryModelLoadRequest | wire.RepositoryModelUnloadRequest]] = {
    "RepositoryModelLoad": wire.RepositoryModelLoadRequest,
    "RepositoryModelUnload": wire.RepositoryModelUnloadRequest,
}
_OF_SETTINGS: dict[str, type[wire.TraceSettingRequest | wire.LogSettingsRequest]] = {
    "TraceSetting": wire.TraceSettingRequest,
    "LogSettings": wire.LogSettingsRequest,
}
_MODEL_PATH = re.compile(r"/v2/repository/models/([^/]+)/(?:load|unload)")
_SETTINGS_PATH = re.compile(r"/v2(?:/models/[^/]+)?/trace/setting|/v2/logging")


@dataclass(frozen=True, slots=True)
class Change:
    """A call that every host is to answer."""

    call: Call
    model: str
    """The model that it loads or unloads; empty if it changes settings."""
    made_ns: int
    """When a client made it, by the clock of the host that received it."""


@dataclass(frozen=True, slots=True)
class HostReply:
    """The answer of one host to a change."""

    node: str
    reply: Reply


def change_of(call: Call, made_ns: int) -> Change | None:
    """Return a call as a change; None if it changes nothing, or nothing that other hosts have."""
    model = _model_over_grpc(call) if isinstance(call, ProtocolCall) else _model_over_http(call)
    return None if model is None else Change(call, model, made_ns)


def reads_settings(call: Call) -> bool:
    """Return whether a call over gRPC is one about settings that changes none; False for a malformed one."""
    kind = _OF_SETTINGS.get(call.method) if isinstance(call, ProtocolCall) else None
    try:
        return kind is not None and isinstance(call, ProtocolCall) and not kind.FromString(call.message).settings
    except DecodeError:
        return False


def newest(changes: Iterable[Change]) -> list[Change]:
    """Return the last change of each model, in the order in which they were made."""
    by_model: dict[str, Change] = {}
    for change in sorted(changes, key=lambda change: change.made_ns):
        by_model.pop(change.model, None)
        by_model[change.model] = change
    return list(by_model.values())


def joined(call: Call, replies: Sequence[HostReply]) -> Reply:
    """Return one reply for those of all hosts, which names the hosts that have not done it."""
    failed = [each for each in replies if not each.reply.is_ok]
    if not replies:
        return refused(call, ServingError(ErrorKind.UNAVAILABLE, "no host is left that could do it"))
    if not failed:
        return replies[0].reply
    if len(failed) == len(replies) and len({each.reply.text for each in failed}) == 1:
        return failed[0].reply
    failures = "; ".join(f"host {each.node}: {each.reply.text}" for each in failed)
    text = f"{len(failed)} of {len(replies)} hosts have not done it: {failures}"
    return refused(call, ServingError(ErrorKind.UNAVAILABLE, text))


def _model_over_grpc(call: ProtocolCall) -> str | None:
    kind = _OF_MODELS.get(call.method)
    if kind is not None:
        try:
            return kind.FromString(call.message).model_name
        except DecodeError:
            return None
    return "" if call.method in _OF_SETTINGS and not reads_settings(call) else None


def _model_over_http(call: HttpCall) -> str | None:
    if call.method != "POST":
        return None
    found = _MODEL_PATH.fullmatch(call.route)
    if found is not None:
        return found[1]
    return "" if _SETTINGS_PATH.fullmatch(call.route) else None
