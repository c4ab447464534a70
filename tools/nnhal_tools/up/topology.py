"""The topology file: the devices, in order of preference.

[[device]]           # cpu_acc and cpu_ref without any
name = "npu0"        # its name in plans; the driver's name by default
driver = "cpu_acc"
workers = 1          # executions that run at a time
threads = 1          # threads that one execution may use
options = { KEY = "VALUE" }  # the driver's own, which its README lists

[[device]]           # a device on another host, where ``nnhal device … --listen`` serves it
name = "npu-7"
endpoint = "tcp://npu-host:9000"
token_file = "/run/secrets/npu-token"
tls_ca = "/etc/nnhal/authority.pem"

[[device]]           # a device that runs already, whoever has started it: used, and neither started nor ended
name = "npu"         # the name of its directory by default
endpoint = "/run/acme/npu"

[[device]]           # a device that another program serves, in whatever language
name = "npu1"
command = ["./acme_npu", "--endpoint", "{endpoint}"]

[framework]          # options of ``nnhal serve``, by name
model_repository = ["/srv/models"]
http_port = 8000

[dashboard]          # options of ``nnhal dashboard``, by name
port = 8003
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from nnhal.admin import SUPERVISOR
from nnhal.errors import NnhalError
from nnhal.given_files import read_given_toml, without_version
from nnhal.near_names import did_you_mean

FRAMEWORK = "framework"
"""The name of the framework's own directory."""
DASHBOARD = "dashboard"
"""The name of the dashboard's process."""
_TAKEN = {FRAMEWORK, DASHBOARD, SUPERVISOR}
"""Names of processes and directories that no device may have."""
VERSION = 1
"""What a file may say of its form. It grows with a change that nnhal of before must not misread."""
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
"""Names of devices, which are names of directories too."""
_OPTION = r"^[a-z][a-z0-9_]*$"
_TCP = re.compile(r"tcp://.+:[0-9]+")
REMOTE = "remote"
"""The driver of devices on other hosts."""
FOREIGN = "foreign"
"""What stands for the driver of a device that has none of ours: it runs already, or a command serves it."""
_WIRE = ("endpoint", "token_file", "tls_ca", "tls_certificate", "tls_key", "insecure")
_OF_DRIVERS = {"workers", "threads", "options", *_WIRE[1:]}
"""What only a device with one of our drivers has."""
_NOT_OPTIONS = {FRAMEWORK: {"endpoint", "device", "supervisor"}, DASHBOARD: {"directory", "supervisor"}}
"""Options that the testbed sets itself."""


Scalar = bool | int | float | str
Options = Mapping[Annotated[str, Field(pattern=_OPTION)], Scalar | tuple[Scalar, ...]]


class TopologyError(NnhalError):
    """A topology file that cannot be read or is invalid."""


class DeviceEntry(BaseModel):
    """One device process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: str = Field(pattern=_NAME)
    """The driver that a process of nnhal serves. ``endpoint`` and ``command`` stand in its place."""
    name: str = Field(default="", pattern=_NAME)
    """The device's name in plans: that of its driver or of its directory by default."""
    workers: int = Field(default=1, ge=1, le=256)
    """Executions that run at a time."""
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of one execution."""
    options: Mapping[Annotated[str, Field(pattern=_OPTION)], Scalar] = {}
    """The driver's own options, which its README lists."""
    endpoint: str = ""
    """The directory of a device that runs already, or ``tcp://HOST:PORT`` of a device on another host."""
    command: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The program that serves the device, and its words. ``{endpoint}`` stands for the device's directory."""
    token_file: str = ""
    """A file with the token for a device on another host, and nothing else."""
    tls_ca: str = ""
    """The authority of that device's certificate, PEM."""
    tls_certificate: str = ""
    """The certificate that the framework's host shows to that device, PEM."""
    tls_key: str = ""
    """The key of the certificate, PEM."""
    insecure: bool = False
    """Reach that device without TLS."""

    @property
    def driver_options(self) -> list[str]:
        """The driver's own options as words of a command line."""
        options = {**self.options, **self._wire}
        named = {"name": self.title} if self._wire else {}
        return [f"--option={name}={_written(value)}" for name, value in {**options, **named}.items()]

    @property
    def _wire(self) -> dict[str, Scalar]:
        """The options of the driver of a device on another host."""
        if self.directory is not None:
            return {}
        given = {name: getattr(self, name) for name in _WIRE}
        return {name: value for name, value in given.items() if value}

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        endpoint = given.get("endpoint")
        if given.get("command") or (isinstance(endpoint, str) and endpoint and not _is_far(endpoint)):
            return {"driver": FOREIGN, **given}
        return {"driver": REMOTE, **given} if endpoint else given

    @field_validator("endpoint")
    @classmethod
    def _expected(cls, endpoint: str) -> str:
        if not endpoint or _TCP.fullmatch(endpoint) or ("/" in endpoint and not _is_far(endpoint)):
            return endpoint
        raise ValueError(
            f"got {endpoint!r}, expected tcp://HOST:PORT, or the directory of a running device with a slash in it, "
            "such as ./npu"
        )

    @model_validator(mode="after")
    def _of_one_kind(self) -> DeviceEntry:
        if self.command and self.endpoint:
            raise ValueError(f"command and endpoint {self.endpoint!r}: expected one of both")
        what = "command" if self.command else f"endpoint {self.endpoint!r}"
        if self.is_foreign != (self.driver == FOREIGN):
            if not self.is_foreign:
                raise ValueError(f"driver {FOREIGN!r}: expected an endpoint or a command instead")
            raise ValueError(f"driver {self.driver!r} and {what}: expected one of both")
        if self.is_foreign and (own := sorted(self.model_fields_set & _OF_DRIVERS)):
            raise ValueError(f"{', '.join(own)}: expected it without {what}, whose program has options of its own")
        if self.command and not self.name:
            raise ValueError("command without a name, expected both")
        if not is_name(self.title):
            raise ValueError(f"endpoint {self.endpoint!r} without a name: {self.title!r} can be none, expected both")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> DeviceEntry:
        wire = sorted(self._wire)
        if not self.endpoint or self.directory is not None:
            if wire:
                raise ValueError(f"{', '.join(wire)}: expected only with an endpoint, tcp://HOST:PORT")
            return self
        if self.driver != REMOTE:
            raise ValueError(
                f"driver {self.driver!r} and endpoint {self.endpoint!r}: expected one of both, since the device's own "
                "process, on its host, has the driver"
            )
        twice = sorted({*wire, "name"} & self.options.keys())
        if twice:
            raise ValueError(f"options has {', '.join(twice)}: expected it only beside the endpoint")
        return self

    @property
    def title(self) -> str:
        """The name in plans."""
        return self.name or (self.driver if self.directory is None else self.directory.name)

    @property
    def is_foreign(self) -> bool:
        """True if it has no driver of ours: it runs already, or a command serves it."""
        return bool(self.command) or self.directory is not None

    @property
    def directory(self) -> Path | None:
        """Directory of the sockets of a device that runs already; None for others."""
        if not self.endpoint or _is_far(self.endpoint):
            return None
        return Path(self.endpoint).expanduser().resolve()


class Topology(BaseModel):
    """All devices, in order of preference, and the options of the framework and of the dashboard."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: tuple[DeviceEntry, ...] = Field(default_factory=lambda: _default_devices(), min_length=1)
    """Tables of devices; cpu_acc and cpu_ref without any."""
    framework: Options = {}
    """Options of ``nnhal serve`` by name, with ``_`` for ``-``."""
    dashboard: Options | None = None
    """Options of ``nnhal dashboard`` by name, with ``_`` for ``-``."""

    @property
    def framework_options(self) -> list[str]:
        """The options as words of a command line."""
        return _words(self.framework)

    @property
    def dashboard_options(self) -> list[str]:
        """The options as words of a command line."""
        return _words(self.dashboard or {})

    def serving(self, repository: Path) -> Topology:
        """A copy with one more model repository."""
        given = self.framework.get("model_repository", ())
        repositories = (*(given if isinstance(given, tuple) else (given,)), str(repository))
        return self.model_copy(update={"framework": {**self.framework, "model_repository": repositories}})

    def calibrated(self, file: Path) -> Topology:
        """A copy whose framework models devices as a file of ``nnhal calibrate`` has measured them."""
        return self.model_copy(update={"framework": {**self.framework, "calibration": str(file.resolve())}})

    def framed(self, options: Options) -> Topology:
        """A copy whose framework has these options too, before those of the file."""
        return self.model_copy(update={"framework": {**self.framework, **options}})

    def shown(self, port: int | None = None, host: str = "") -> Topology:
        """A copy with a dashboard, at a port and an address if they are given: port 0 lets the system choose."""
        given = {**({} if port is None else {"port": port}), **({"host": host} if host else {})}
        return self.model_copy(update={"dashboard": {**(self.dashboard or {}), **given}})

    def hidden(self) -> Topology:
        """A copy without a dashboard."""
        return self.model_copy(update={"dashboard": None})

    @model_validator(mode="after")
    def _distinct(self) -> Topology:
        titles = [entry.title for entry in self.device]
        if len(set(titles)) < len(titles) or _TAKEN & set(titles):
            taken = ", ".join(map(repr, sorted(_TAKEN)))
            raise ValueError(f"device names {titles}: expected distinct ones, none of them {taken}")
        for name, options in ((FRAMEWORK, self.framework), (DASHBOARD, self.dashboard or {})):
            own = sorted(_NOT_OPTIONS[name] & options.keys())
            if own:
                raise ValueError(
                    f"{name} has {', '.join(own)}: expected only options that the testbed does not set itself"
                )
        return self


def is_name(text: str) -> bool:
    """True if a device may have that name."""
    return re.fullmatch(_NAME, text) is not None


def _is_far(endpoint: str) -> bool:
    return endpoint.startswith("tcp:")


def _default_devices() -> tuple[DeviceEntry, ...]:
    return DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")


DEFAULT_TOPOLOGY = Topology()


def is_taken(name: str) -> bool:
    """True if a name is that of a process which is no device."""
    return name in _TAKEN


def _words(options: Options) -> list[str]:
    """Options as words of a command line."""
    return [
        f"--{name.replace('_', '-')}={_written(value)}"
        for name, given in options.items()
        for value in (given if isinstance(given, tuple) else (given,))
    ]


def _written(value: Scalar) -> str:
    """A value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_topology(path: Path) -> Topology:
    """Read a file. Raises TopologyError with what is wrong and where."""
    try:
        given = read_given_toml(path, "a topology")
        return Topology.model_validate(without_version(given, VERSION, f"{path}: a topology"))
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise TopologyError(f"{path}: {first_problem(error, 'the file')}") from error
    except ValueError as error:
        raise TopologyError(str(error)) from error


def first_problem(error: ValidationError, whole: str) -> str:
    """The first thing that is wrong, and where; ``whole`` is what it all is called."""
    problems = error.errors()
    # A key that is mistyped is missing, too.
    first = next((each for each in problems if each["type"] == "extra_forbidden"), problems[0])
    where = ".".join(str(part) for part in first["loc"]) or whole
    if first["type"] != "extra_forbidden":
        return f"{where}: {first['msg']}"
    known = (DeviceEntry if "device" in first["loc"][:-1] else Topology).model_fields
    key = str(first["loc"][-1])
    return f"{where}: there is no such key, expected one of {', '.join(known)}{did_you_mean(key, known)}"
