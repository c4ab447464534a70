"""The settings that every serving process of nnhal has.

They are read once, when the process starts: from its command line, then from the environment, then the default.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings


class ProcessSettings(BaseSettings):
    """Limits and logs. Each process derives its own, with its prefix of environment variables."""

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


def describe_invalid(error: ValidationError) -> str:
    """The first thing that is wrong, on one line: which setting, what was got, what was expected."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"]) or "the settings"
    return f"{name} {problem['input']!r}: {problem['msg']}"
