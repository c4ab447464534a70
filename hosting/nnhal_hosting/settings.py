"""The settings that every serving process of nnhal has.

They are read once, when the process starts: from its command line, then from the environment, then the default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict


class ProcessSettings(BaseSettings):
    """Limits and logs. Each process derives its own, with its prefix of environment variables.

    An empty variable counts as none: files of Compose and units of systemd cannot leave one out on a condition.
    """

    model_config = SettingsConfigDict(env_ignore_empty=True)

    rpc_threads: int = Field(default=16, ge=2, le=256)
    """Calls over gRPC that are served at a time."""

    max_sessions: int = Field(default=128, ge=1)
    """Links that may be open at a time."""

    max_descriptors: int = Field(default=256, ge=16)
    """Descriptors that one session may own at a time."""

    allowed_uids: tuple[int, ...] = ()
    """Users besides this one and root whose processes may open links."""

    admin_key: Path | None = None
    """A file with the key that operators show; it belongs to the process's user, with mode 0600 or 0400."""

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """From which level on to log."""

    log_json: bool = False
    """Log lines as JSON."""


def describe_invalid(error: ValidationError) -> str:
    """The first thing that is wrong, on one line: which setting, what was got, what was expected."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"]) or "the settings"
    return f"{name} {problem['input']!r}: {problem['msg']}"
