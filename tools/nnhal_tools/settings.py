"""The settings of the command, read once: NNHAL_*, then the default."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class ClientSettings(BaseSettings):
    """Settings from the environment."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_", frozen=True, extra="ignore")

    directory: Path = Path("/run/nnhal")
    """Where ``nnhal up`` puts the sockets of its processes."""
