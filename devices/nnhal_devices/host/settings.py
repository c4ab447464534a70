"""The settings of a device process: NNHAL_DEVICE_* in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode, SettingsConfigDict

from nnhal_hosting.settings import ProcessSettings


def _divided(value: object) -> object:
    """Divide a list of directories at its colons."""
    return [part for part in value.split(":") if part] if isinstance(value, str) else value


class DeviceSettings(ProcessSettings):
    """The settings of a device process besides its driver and its endpoint."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_DEVICE_", frozen=True, extra="forbid")

    workers: int = Field(default=1, ge=1, le=256)
    """Executions that run at a time."""

    buffer_bytes: int = Field(default=4 << 30, ge=0)
    """Memory that buffers of all clients together may take."""

    synchronous_fences: bool = False
    """Whether a fenced execution is computed in the call that launches it, and returns no fence."""

    map_files: bool = True
    """Whether files that may shrink are mapped under a guard if the driver can run so, and not always staged."""

    threads: int = Field(default=1, ge=1, le=256)
    """Threads that one execution may use, if the driver can use several."""

    spin_us: int = Field(default=0, ge=0, le=10_000)
    """Microseconds to look for the next call after a call before sleeping; none if there is only one processor."""

    backend_paths: Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_divided)] = ()
    """Absolute directories, colons between them, whose backend files are loaded when the process starts."""
