"""The topology file: the devices, in order of preference.

[[device]]
name = "npu0"        # its name in plans; the driver's name by default
driver = "cpu_acc"
workers = 1          # executions that run at a time
threads = 1          # threads that one execution may use
options = { KEY = "VALUE" }  # the driver's own, which its README lists

[framework]          # options of ``nnhal serve``, by name
model_repository = ["/srv/models"]
http_port = 8000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nnhal.errors import NnhalError

FRAMEWORK = "framework"
"""The name of the framework's own directory."""
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
"""Names of devices, which are names of directories too."""
_OPTION = r"^[a-z][a-z0-9_]*$"
_NOT_OPTIONS = {"endpoint", "device", "supervisor"}
"""Options that the testbed sets itself."""


Scalar = bool | int | float | str


class TopologyError(NnhalError):
    """A topology file that cannot be read or is invalid."""


class DeviceEntry(BaseModel):
    """One device process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str = Field(pattern=_NAME)
    name: str = Field(default="", pattern=_NAME)
    workers: int = Field(default=1, ge=1, le=256)
    threads: int = Field(default=1, ge=1, le=256)
    options: Mapping[Annotated[str, Field(pattern=_OPTION)], Scalar] = {}

    @property
    def driver_options(self) -> list[str]:
        """The driver's own options as words of a command line."""
        return [f"--option={name}={_written(value)}" for name, value in self.options.items()]

    @property
    def title(self) -> str:
        """The name in plans."""
        return self.name or self.driver


class Topology(BaseModel):
    """All devices, in order of preference, and the options of the framework."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: tuple[DeviceEntry, ...] = Field(min_length=1)
    framework: Mapping[Annotated[str, Field(pattern=_OPTION)], Scalar | tuple[Scalar, ...]] = {}

    @property
    def framework_options(self) -> list[str]:
        """The options as words of a command line."""
        return [
            f"--{name.replace('_', '-')}={_written(value)}"
            for name, given in self.framework.items()
            for value in (given if isinstance(given, tuple) else (given,))
        ]

    def serving(self, repository: Path) -> Topology:
        """A copy with one more model repository."""
        given = self.framework.get("model_repository", ())
        repositories = (*(given if isinstance(given, tuple) else (given,)), str(repository))
        return self.model_copy(update={"framework": {**self.framework, "model_repository": repositories}})

    @model_validator(mode="after")
    def _distinct(self) -> Topology:
        titles = [entry.title for entry in self.device]
        if len(set(titles)) < len(titles) or FRAMEWORK in titles:
            raise ValueError(f"device names {titles}: expected distinct ones, none of them {FRAMEWORK!r}")
        own = sorted(_NOT_OPTIONS & self.framework.keys())
        if own:
            raise ValueError(
                f"framework has {', '.join(own)}: expected only options that the testbed does not set itself"
            )
        return self


DEFAULT_TOPOLOGY = Topology(device=(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")))


def _written(value: Scalar) -> str:
    """A value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_topology(path: Path) -> Topology:
    """Read a file. Raises TopologyError with what is wrong and where."""
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
