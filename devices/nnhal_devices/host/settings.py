"""The settings of a device process, read once when it starts: command line, then NNHAL_DEVICE_*, then the default."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class DeviceSettings(BaseSettings):
    """What may be said of a device process besides its driver and its endpoint."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_DEVICE_", frozen=True, extra="forbid")

    workers: int = Field(default=1, ge=1, le=256)
    """Executions that run at a time."""

    threads: int = Field(default=1, ge=1, le=256)
    """Threads that one execution may use, where the driver can use several."""

    rpc_threads: int = Field(default=16, ge=2, le=256)
    """Calls over gRPC that are served at a time."""

    max_sessions: int = Field(default=128, ge=1)
    """Links that may be open at a time."""

    max_descriptors: int = Field(default=256, ge=16)
    """Descriptors that one session may own at a time."""

    allowed_uids: tuple[int, ...] = ()
    """Users besides this one and root whose processes may open links."""

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """From which level on to log."""

    log_json: bool = False
    """Log lines as JSON."""
