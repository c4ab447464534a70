"""The topology file: which devices there are, in order of preference.

[[device]]
name = "npu0"        # by which name plans speak of it; its driver's name by default
driver = "cpu_acc"
workers = 1          # executions that run at a time
threads = 1          # threads that one execution may use
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nnhal.errors import NnhalError

FRAMEWORK = "framework"
"""The name of the framework's own directory."""
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
"""What may name a device, and so its directory."""


class TopologyError(NnhalError):
    """A topology file that cannot be read, or says what it may not say."""


class DeviceEntry(BaseModel):
    """One device process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str = Field(pattern=_NAME)
    name: str = Field(default="", pattern=_NAME)
    workers: int = Field(default=1, ge=1, le=256)
    threads: int = Field(default=1, ge=1, le=256)

    @property
    def title(self) -> str:
        """By which name plans speak of it."""
        return self.name or self.driver


class Topology(BaseModel):
    """All devices, in order of preference."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: tuple[DeviceEntry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Topology:
        titles = [entry.title for entry in self.device]
        if len(set(titles)) < len(titles) or FRAMEWORK in titles:
            raise ValueError(f"device names {titles}: expected distinct ones, none of them {FRAMEWORK!r}")
        return self


DEFAULT_TOPOLOGY = Topology(device=(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")))


def read_topology(path: Path) -> Topology:
    """The topology of a file. Raises TopologyError with what is wrong and where."""
    try:
        return Topology.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise TopologyError(f"{path}: {where}: {first['msg']}") from error
