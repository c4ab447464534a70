"""Which model a call is about."""

from __future__ import annotations

import re
from urllib.parse import unquote

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import HttpCall, ProtocolCall
from nnhal_ray.protocol import INFER
from nnhal_service.v2.grpc.decode import model_name_of

_BY_NAME: dict[str, type[wire.ModelReadyRequest | wire.ModelMetadataRequest | wire.ModelConfigRequest]] = {
    "ModelReady": wire.ModelReadyRequest,
    "ModelMetadata": wire.ModelMetadataRequest,
    "ModelConfig": wire.ModelConfigRequest,
}
_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?(?:/(?:infer|ready|config))?")
_NO_MODEL = "/v2/models/stats"


def model_of(call: ProtocolCall | HttpCall) -> str:
    """The model that a call needs; empty if it needs none, or is malformed."""
    if isinstance(call, HttpCall):
        found = _PATH.fullmatch(call.path) if call.path != _NO_MODEL else None
        return unquote(found[1]) if found is not None else ""
    try:
        if call.method == INFER:
            return model_name_of(call.message)
        kind = _BY_NAME.get(call.method)
        return "" if kind is None else kind.FromString(call.message).name
    except DecodeError:
        return ""
