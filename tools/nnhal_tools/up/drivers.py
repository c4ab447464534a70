"""The devices that a user names, and the drivers that they can be started with.

Another process lists the drivers, since loading a backend runs its code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from nnhal.endpoint import Endpoint
from nnhal.near_names import there_are
from nnhal.threads import BriefThread
from nnhal_tools.up.topology import (
    FOREIGN,
    REMOTE,
    DeviceEntry,
    Topology,
    TopologyError,
    first_problem,
    is_name,
    read_topology,
)

_SECONDS = 60.0
_COMMAND = (sys.executable, "-m", "nnhal_devices.inventory", "--names")
_FAILURES = (OSError, ValueError, subprocess.TimeoutExpired)


class DriverNames:
    """Asks for the names once, when they are first wanted, and does not wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._names: tuple[str, ...] = ()

    def get(self) -> tuple[str, ...]:
        """Return the names; none before they are known, a second or so after the first call."""
        with self._lock:
            asked, self._asked = self._asked, True
        if not asked:
            self._asked = BriefThread(self._ask, "drivers").started() is not None
        return self._names

    def _ask(self) -> None:
        try:
            self._names, _ = _listed()
        except _FAILURES:  # asked again with the next call
            self._asked = False


def listed_topology(text: str) -> Topology:
    """The devices that a user lists with commas between, in order of preference: what ``given_device`` takes each.

    Before each there may be a name for it, as in ``npu=/run/acme/npu``. Raises TopologyError if one is listed twice, or
    there is no such driver.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise TopologyError(f"got {text!r}, expected drivers with single commas between")
    if twice := [word for word in words if words.count(word) > 1]:
        raise TopologyError(f"got driver {twice[0]!r} more than once; a topology file has several devices of a driver")
    named = [word.rpartition("=")[::2] for word in words]
    found = [_found(device) for _, device in named]
    for (_, device), entry in zip(named, found, strict=True):
        if entry is None and device.startswith(("/", "./")):
            raise _no_device(device)
    _require_drivers([device for (_, device), entry in zip(named, found, strict=True) if entry is None])
    try:
        entries = [
            _called(name, entry or DeviceEntry(driver=device))
            for (name, device), entry in zip(named, found, strict=True)
        ]
        return Topology(device=tuple(entries))
    except ValidationError as error:
        raise TopologyError(f"drivers {text!r}: {first_problem(error, 'all of them')}") from None


def given_device(text: str) -> DeviceEntry:
    """The device that a user means: a driver, the directory of a running device, or FILE.toml:NAME, one of a topology.

    Raises TopologyError if it can be none of them. Whether there is such a driver is for its process to say.
    """
    entry = _found(text)
    if entry is None and "/" in text:
        raise _no_device(text)
    try:
        return entry or DeviceEntry(driver=text)
    except ValidationError as error:
        raise TopologyError(f"device {text!r}: {first_problem(error, 'it')}") from None


def _found(text: str) -> DeviceEntry | None:
    """The device of a topology, or the one that runs; None if the text can only be a driver."""
    file, separator, name = text.rpartition(":")
    if separator and file.endswith(".toml"):
        entries = {entry.title: entry for entry in read_topology(Path(file)).device}
        if name not in entries:
            raise TopologyError(f"{file}: no device is called {name!r}; {there_are(name, entries)}")
        return entries[name]
    endpoint = Endpoint(Path(text).resolve())
    if not endpoint.link.exists():
        return None
    name = endpoint.directory.name
    return DeviceEntry(driver=FOREIGN, endpoint=str(endpoint.directory), name=name if is_name(name) else "device")


def _no_device(text: str) -> TopologyError:
    return TopologyError(f"{text}: no device serves there, since it has no {Endpoint(Path(text)).link.name}")


def _called(name: str, entry: DeviceEntry) -> DeviceEntry:
    """Return the device by another name, if one is given."""
    return DeviceEntry.model_validate({**entry.model_dump(exclude_unset=True), "name": name}) if name else entry


def _require_drivers(names: Sequence[str]) -> None:
    if REMOTE in names:
        raise TopologyError(f"driver {REMOTE!r} needs an address, which only a topology file can give")
    unknown = [name for name in names if name not in drivers_of_nnhal()]
    try:
        known, refused = _listed() if unknown else ((), ())
    except _FAILURES:  # the device's own process says what is wrong
        return
    if missing := [name for name in unknown if name not in known]:
        raise TopologyError("; ".join((f"no driver is called {missing[0]!r}", there_are(missing[0], known), *refused)))


def drivers_of_nnhal() -> set[str]:
    """The drivers that nnhal comes with, each a folder with these files: a second is saved if no others are wanted."""
    package = find_spec("nnhal_devices")
    if package is None or package.origin is None:
        return set()
    folders = {path.parent for path in Path(package.origin).parent.glob("*/driver.py")}
    return {folder.name for folder in folders if (folder / "README.md").is_file()}


def _listed() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of all drivers, sorted, and the backend files that are not used, with reasons."""
    done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_SECONDS, check=False)
    found = json.loads(done.stdout)
    return tuple(found["names"]), tuple(f"{each['path']} is not loaded: {each['reason']}" for each in found["refused"])
