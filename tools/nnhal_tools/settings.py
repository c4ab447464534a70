"""The settings of the command, read once: NNHAL_*, then the default."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from nnhal.endpoint import default_directory

DEFAULT_DIRECTORY = "NNHAL_DIRECTORY, else /run/nnhal or, for a user who is not root, $XDG_RUNTIME_DIR/nnhal,"
"""What help says of the directory of a testbed; see ``nnhal.endpoint.default_directory``."""


class ClientSettings(BaseSettings):
    """Settings from the environment."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_", frozen=True, extra="ignore", env_ignore_empty=True)

    directory: Path = Field(default_factory=default_directory)
    """Where ``nnhal up`` puts the sockets of its processes."""
