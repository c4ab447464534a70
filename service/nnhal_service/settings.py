"""The settings of the framework process: NNHAL_SERVICE_* in the environment."""

from __future__ import annotations

from pydantic_settings import SettingsConfigDict

from nnhal.settings import ProcessSettings


class ServiceSettings(ProcessSettings):
    """What may be said of the framework process besides its endpoint and its devices."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_SERVICE_", frozen=True, extra="forbid")

    cache_directory: str = ""
    """Where compilations are kept for clients that give tokens; empty for no caching."""
