"""Calls about the repository, over gRPC and HTTP, as the routing deployment sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

import orjson
from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import HttpCall, ProtocolCall

_MODEL_PATH = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
_MOST_JSON = 1 << 16
_INDEX_PATH = "/v2/repository/index"


class RepositoryAct(Enum):
    """What a client wants of the repository."""

    LOAD = "load"
    UNLOAD = "unload"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class RepositoryCall:
    """A call about the repository. An index has no model."""

    act: RepositoryAct
    model: str = ""
    ready: bool = False
    """Whether an index lists only models that are ready."""
    has_parameters: bool = False
    """Whether a load comes with a configuration or files."""


def repository_call(call: ProtocolCall | HttpCall) -> RepositoryCall | None:
    """A call as one about the repository; None for all others. Raises ValueError if it is malformed."""
    return _over_grpc(call) if isinstance(call, ProtocolCall) else _over_http(call)


def _over_grpc(call: ProtocolCall) -> RepositoryCall | None:
    try:
        if call.method == "RepositoryModelLoad":
            load = wire.RepositoryModelLoadRequest.FromString(call.message)
            return RepositoryCall(RepositoryAct.LOAD, load.model_name, has_parameters=bool(load.parameters))
        if call.method == "RepositoryModelUnload":
            unload = wire.RepositoryModelUnloadRequest.FromString(call.message)
            return RepositoryCall(RepositoryAct.UNLOAD, unload.model_name)
        if call.method == "RepositoryIndex":
            return RepositoryCall(RepositoryAct.INDEX, ready=wire.RepositoryIndexRequest.FromString(call.message).ready)
    except DecodeError as error:
        raise ValueError(f"the request is not a valid message of {call.method}") from error
    return None


def _over_http(call: HttpCall) -> RepositoryCall | None:
    found = _MODEL_PATH.fullmatch(call.path)
    if call.method != "POST" or not (found or call.path == _INDEX_PATH):
        return None
    if found and len(call.body) > _MOST_JSON and RepositoryAct(found[2]) is RepositoryAct.LOAD:
        return RepositoryCall(RepositoryAct.LOAD, unquote(found[1]), has_parameters=True)
    if len(call.body) > _MOST_JSON:
        raise ValueError(f"the request has {len(call.body)} bytes, expected {_MOST_JSON} at the most")
    try:
        given = orjson.loads(call.body or b"{}")
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"the request is {str(given)[:60]!r}, expected a JSON object")
    if found is None:
        return RepositoryCall(RepositoryAct.INDEX, ready=given.get("ready") is True)
    act = RepositoryAct(found[2])
    return RepositoryCall(
        act, unquote(found[1]), has_parameters=act is RepositoryAct.LOAD and bool(given.get("parameters"))
    )
