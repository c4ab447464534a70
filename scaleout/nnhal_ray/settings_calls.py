"""The two calls of the protocol that read settings, or change them."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.inference import grpc_service_pb2 as wire

_REQUESTS: dict[str, type[wire.TraceSettingRequest | wire.LogSettingsRequest]] = {
    "TraceSetting": wire.TraceSettingRequest,
    "LogSettings": wire.LogSettingsRequest,
}


def only_reads(method: str, message: bytes) -> bool:
    """Whether a call of settings changes none. False for other calls and malformed ones."""
    kind = _REQUESTS.get(method)
    if kind is None:
        return False
    try:
        return not kind.FromString(message).settings
    except DecodeError:
        return False
