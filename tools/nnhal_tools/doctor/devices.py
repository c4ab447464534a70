"""Drivers that can be loaded on this host, and why others cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from nnhal_tools.doctor.finding import DoctorFinding, fail, ok, warn

_SECONDS = 60.0
_ESSENTIAL = "cpu_ref"
"""The device that runs what all others refuse."""


def check_devices() -> Iterator[DoctorFinding]:
    """Check all drivers in another process, since loading a backend runs its code."""
    command = [sys.executable, "-m", "nnhal_devices.inventory"]
    todo = "run it by hand: python -m nnhal_devices.inventory"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        yield fail("devices", f"drivers did not load within {_SECONDS:.0f} s", todo)
    except ValueError:
        yield fail("devices", f"drivers cannot be listed: {done.stderr.strip()[-200:] or done.returncode}", todo)
    else:
        yield from findings(found)


def findings(inventory: dict[str, Any]) -> Iterator[DoctorFinding]:
    """The findings of an inventory (see nnhal_devices.inventory)."""
    for driver in inventory["drivers"]:
        check, name = f"driver {driver['name']}", driver["name"]
        if driver["problem"] is None:
            yield ok(check, f"version {driver['version']}")
        elif name == _ESSENTIAL:
            yield fail(check, driver["problem"], "install nnhal again: nothing can fall back without it")
        else:
            yield warn(check, driver["problem"], "repair what provides it, or leave it out")
    searched = ", ".join(inventory["searched"]) or "nowhere: NNHAL_DEVICE_BACKEND_PATHS is empty"
    yield ok("dynamic backends", f"looked for in {searched}")
    for refused in inventory["refused"]:
        yield warn(f"backend {refused['path']}", refused["reason"], "docs/write_a_device.md says what a file must have")
