"""The drivers that devices can be started with. Another process lists them, since loading a backend runs its code."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from nnhal_tools.up.topology import REMOTE, DeviceEntry, Topology, TopologyError, first_problem

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
            threading.Thread(target=self._ask, name="drivers", daemon=True).start()
        return self._names

    def _ask(self) -> None:
        try:
            self._names = _listed()
        except _FAILURES:  # asked again with the next call
            self._asked = False


def topology_of_drivers(text: str) -> Topology:
    """The devices that a user lists: drivers with commas between, in order of preference.

    Raises TopologyError if one is listed twice, or there is no such driver.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise TopologyError(f"got {text!r}, expected drivers with single commas between")
    if twice := [name for name in names if names.count(name) > 1]:
        raise TopologyError(f"got driver {twice[0]!r} more than once; a topology file has several devices of a driver")
    if REMOTE in names:
        raise TopologyError(f"driver {REMOTE!r} needs an address, which only a topology file can give")
    unknown = [name for name in names if name not in _of_nnhal()]
    known = _listed_or(names) if unknown else ()
    if missing := [name for name in unknown if name not in known]:
        raise TopologyError(f"no driver is called {missing[0]!r}; there are {', '.join(sorted(known))}")
    try:
        return Topology(device=tuple(DeviceEntry(driver=name) for name in names))
    except ValidationError as error:
        raise TopologyError(f"drivers {text!r}: {first_problem(error, 'all of them')}") from None


def _of_nnhal() -> set[str]:
    """The drivers that nnhal comes with, each a folder with these files: a second is saved if no others are wanted."""
    package = find_spec("nnhal_devices")
    if package is None or package.origin is None:
        return set()
    folders = {path.parent for path in Path(package.origin).parent.glob("*/driver.py")}
    return {folder.name for folder in folders if (folder / "README.md").is_file()}


def _listed_or(names: Sequence[str]) -> Sequence[str]:
    """All drivers; these names if they cannot be listed, so that the device's own process says what is wrong."""
    try:
        return _listed()
    except _FAILURES:
        return names


def _listed() -> tuple[str, ...]:
    done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return tuple(json.loads(done.stdout))
