"""The settings of a device process: NNHAL_DEVICE_* in the environment."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from nnhal.settings import ProcessSettings


class DeviceSettings(ProcessSettings):
    """What may be said of a device process besides its driver and its endpoint."""

    model_config = SettingsConfigDict(env_prefix="NNHAL_DEVICE_", frozen=True, extra="forbid")

    workers: int = Field(default=1, ge=1, le=256)
    """Executions that run at a time."""

    threads: int = Field(default=1, ge=1, le=256)
    """Threads that one execution may use, where the driver can use several."""
