"""Trace and log settings, as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from nnhal.inference.grpc_service_pb2 import LogSettingsRequest, LogSettingsResponse, TraceSettingResponse
from nnhal_service.v2.backend import LogSetting
from nnhal_service.v2.tensors import refuse


def trace_response(settings: Mapping[str, Sequence[str]]) -> TraceSettingResponse:
    """All settings."""
    value = TraceSettingResponse.SettingValue
    return TraceSettingResponse(settings={key: value(value=values) for key, values in settings.items()})


def log_changes(request: LogSettingsRequest) -> dict[str, LogSetting]:
    """Raises INVALID_ARGUMENT where a setting has no value."""
    changes = {}
    for key, setting in request.settings.items():
        choice = setting.WhichOneof("parameter_choice")
        if choice is None:
            raise refuse(f"log setting '{key}' has no value")
        changes[key] = cast(LogSetting, getattr(setting, choice))
    return changes


def log_response(settings: Mapping[str, LogSetting]) -> LogSettingsResponse:
    """All settings."""
    response = LogSettingsResponse()
    for key, value in settings.items():
        setting = response.settings[key]
        if isinstance(value, bool):
            setting.bool_param = value
        elif isinstance(value, int):
            setting.uint32_param = value
        else:
            setting.string_param = value
    return response
