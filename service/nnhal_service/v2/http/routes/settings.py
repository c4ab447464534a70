"""The routes of the settings of traces and of the log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from nnhal_service.v2.backend import LogSetting
from nnhal_service.v2.http.json_route import json_route
from nnhal_service.v2.http.services import Services
from nnhal_service.v2.requested import refuse

Settings = Annotated[dict[str, Any] | None, Body()]


def router_for(services: Services) -> APIRouter:
    """``/v2/trace/setting``, ``/v2/models/…/trace/setting`` and ``/v2/logging``."""
    router = APIRouter(tags=["settings"], route_class=json_route(services))

    @router.get("/v2/trace/setting")
    @router.get("/v2/models/{model}/trace/setting")
    def trace_settings(model: str = "") -> dict[str, Any]:
        """The trace settings of all models, or of one."""
        return _shown(services, model, {})

    @router.post("/v2/trace/setting")
    @router.post("/v2/models/{model}/trace/setting")
    def change_trace_settings(model: str = "", settings: Settings = None) -> dict[str, Any]:
        """Change trace settings; null resets a setting."""
        return _shown(services, model, {key: _values(key, value) for key, value in (settings or {}).items()})

    @router.get("/v2/logging")
    def log_settings() -> dict[str, LogSetting]:
        """The log settings."""
        return dict(services.log.update({}))

    @router.post("/v2/logging")
    def change_log_settings(settings: Settings = None) -> dict[str, LogSetting]:
        """Change log settings."""
        changes: dict[str, LogSetting] = {}
        for key, value in (settings or {}).items():
            if not isinstance(value, bool | int | str):
                raise refuse(f"log setting '{key}' is {str(value)[:40]!r}, expected a boolean, an integer or a string")
            changes[key] = value
        return dict(services.log.update(changes))

    return router


def _values(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(entry, str | int) and not isinstance(entry, bool) for entry in values):
        raise refuse(f"trace setting '{key}' is {str(value)[:40]!r}, expected a string, strings or null")
    return tuple(str(entry) for entry in values)


def _shown(services: Services, model: str, changes: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """The trace settings as Triton writes them: the levels as a list, each other setting as a string."""
    settings = services.trace.update(model, changes)
    return {
        key: list(values) if key == "trace_level" else (values[0] if values else "") for key, values in settings.items()
    }
