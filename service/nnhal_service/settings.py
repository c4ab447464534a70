"""The settings of the framework process, read once when it starts: command line, then NNHAL_*, then the default."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """What may be said of the framework process besides its endpoint and its devices."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_", frozen=True, extra="ignore")

    rpc_threads: int = Field(default=16, ge=2, le=256)
    """Calls over gRPC that are served at a time."""

    max_sessions: int = Field(default=128, ge=1)
    """Links that may be open at a time."""

    max_descriptors: int = Field(default=256, ge=16)
    """Descriptors that one session may own at a time."""

    allowed_uids: tuple[int, ...] = ()
    """Users besides this one and root whose processes may open links."""

    log_level: str = "warning"
    """debug, info, warning or error."""

    log_json: bool = False
    """Log lines as JSON."""
