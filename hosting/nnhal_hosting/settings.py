"""The settings that every serving process of nnhal has.

They are read once, when the process starts: from its command line, then from the environment, then the default.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from nnhal.errors import NnhalError
from nnhal_hosting.calls.limits import CallLimits

MOST = 1_000_000
"""The greatest number of anything that is counted, such as sessions, and of requests a second."""
MOST_BYTES = 1 << 40
"""The greatest number of bytes: 1 TiB."""
MOST_SECONDS = 366 * 24 * 3600
"""The longest time: a year."""


class _Environment(EnvSettingsSource):
    """Variables of the environment. Raises NnhalError, which names the variable, if JSON is expected and got none."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except (ValueError, RecursionError) as error:
            variable = f"{self.env_prefix}{field_name}".upper()
            raise NnhalError(f'{variable} {value!r:.80}: expected JSON, such as ["a"]: {error}') from None


class EnvironmentSettings(BaseSettings):
    """Settings that are given, or are in the environment.

    An empty variable counts as none: files of Compose and units of systemd cannot leave one out on a condition.
    """

    model_config = SettingsConfigDict(env_ignore_empty=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - read by one of nnhal's own
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment so that malformed JSON is refused in words."""
        return init_settings, _Environment(settings_cls), dotenv_settings, file_secret_settings


class ProcessSettings(EnvironmentSettings):
    """Limits and logs. Each process derives its own, with its prefix of environment variables."""

    rpc_threads: int = Field(default=16, ge=2, le=256)
    """Calls over native gRPC that are served at a time, beside two of each session.

    Beyond it calls wait. Each takes a thread while it is served.
    """

    rpc_waiting: int = Field(default=256, ge=1, le=MOST)
    """Calls of one session that wait to be served.

    Beyond it a call is refused with RESOURCE_EXHAUSTED.
    """

    rpc_streams: int = Field(default=32, ge=1, le=256)
    """Open streams over gRPC: watches of health, and reflection.

    Beyond it a stream is refused with RESOURCE_EXHAUSTED. Each takes a thread.
    """

    rpc_connections: int = Field(default=1024, ge=1, le=MOST)
    """Open connections over gRPC.

    Beyond it a connection is closed when it comes.
    """

    rpc_connection_calls: int = Field(default=256, ge=1, le=MOST)
    """Open calls of one connection.

    Beyond it the client keeps calls back. Each takes 12 to 24 KiB.
    """

    rpc_read_ahead_bytes: int = Field(default=16 << 10, ge=1024, le=2**31 - 1)
    """Bytes that are read of the message of a call that waits.

    Beyond it the rest is read when the call is served.
    """

    rpc_message_bytes: int = Field(default=128 << 20, ge=64 << 10, le=2**31 - 1)
    """Bytes of one message.

    Beyond it the call is refused with RESOURCE_EXHAUSTED. A message takes twice its bytes while it is put together.
    """

    rpc_memory_bytes: int = Field(default=512 << 20, ge=64 << 10, le=MOST_BYTES)
    """Bytes of messages that have come, of messages that are coming, and of answers that clients have not taken.

    Beyond it a message that has come is refused with RESOURCE_EXHAUSTED, calls whose messages are coming are cancelled
    but for the oldest, and the oldest answers end.
    """

    rpc_stalled_secs: float = Field(default=10.0, gt=0, le=MOST_SECONDS)
    """Seconds until the message of a call must be complete.

    Beyond it the call ends with CANCELLED.
    """

    max_sessions: int = Field(default=128, ge=1, le=MOST)
    """Open links.

    Beyond it a link is refused with the number. Each takes three descriptors or more.
    """

    max_descriptors: int = Field(default=0, ge=0, le=MOST)
    """Descriptors that all sessions together may own; 0 for three quarters of the process's limit on open files.

    Beyond it RESOURCE_EXHAUSTED.
    """

    allowed_uids: tuple[int, ...] = ()
    """Users besides this one and root whose processes may open links."""

    admin_key: Path | None = None
    """A file with the key that operators show. It belongs to the process's user, with mode 0600 or 0400."""

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The lowest level that is logged."""

    log_json: bool = False
    """Log lines as JSON."""

    @property
    def calls(self) -> CallLimits:
        names = [field.name for field in fields(CallLimits) if field.name != "prefix"]
        prefix = f"{self.model_config['env_prefix']}RPC_"
        return CallLimits(prefix, **{name: getattr(self, f"rpc_{name}") for name in names})


def describe_invalid(error: ValidationError) -> str:
    """The first thing that is wrong, on one line: which setting, what was got, what was expected."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"]) or "the settings"
    return f"{name} {problem['input']!r:.80}: {problem['msg']}"
