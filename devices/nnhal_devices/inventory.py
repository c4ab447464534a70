"""``python -m nnhal_devices.inventory``: the drivers that can be created here, as JSON.

``names`` has all drivers; ``refused`` the files and directories that were not used, and why; ``drivers`` name, version
and, if a driver cannot be created, the problem; ``searched`` the directories of backend files. With ``--names`` no
driver is created, and the last two are left out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import MutableMapping
from functools import partial
from typing import Any

import structlog
from pydantic import ValidationError

from nnhal.errors import NnhalError
from nnhal_devices.driver import DriverOptions
from nnhal_devices.dynamic import register_backends
from nnhal_devices.dynamic.trial import SECONDS, TrialError, try_all
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.registry import BackendRegistry, driver_names, registry
from nnhal_hosting.settings import describe_invalid

_BY_OPTIONS = {"ort_ep", "remote"}
"""Drivers that need a provider's library or an address, and whose version is that of the provider or the device."""


def main() -> int:
    """Print the inventory. Returns 2 if the settings in the environment are wrong."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a backend prints is not part of the answer
    try:
        settings = DeviceSettings()
    except (ValidationError, NnhalError) as error:
        print(describe_invalid(error) if isinstance(error, ValidationError) else error, file=sys.stderr)
        return 2
    entries: list[dict[str, Any]] = []
    structlog.configure(processors=[_Collector(entries)])
    register_backends(settings.backend_paths, registry(), seconds=settings.backend_seconds)
    refused = [
        {"path": entry.get("file") or entry["directory"], "reason": entry["reason"]}
        for entry in entries
        if "reason" in entry
    ]
    report: dict[str, Any] = {"names": driver_names(), "refused": refused}
    if "--names" not in sys.argv[1:]:
        report["searched"] = [str(path) for path in settings.backend_paths]
        report["drivers"] = inventory(registry(), settings.backend_seconds)
    with answers:
        json.dump(report, answers)
    return 0


def inventory(found: BackendRegistry, seconds: float = SECONDS) -> list[dict[str, str | None]]:
    """Create each driver once, each in a process of its own, and describe it, but for those that need options."""
    names = [name for name in found.names() if name not in _BY_OPTIONS]
    answers = try_all([partial(_version, found, name) for name in names], seconds)
    return [
        {"name": name, "version": None, "problem": str(answer)}
        if isinstance(answer, TrialError)
        else {"name": name, "version": answer, "problem": None}
        for name, answer in zip(names, answers, strict=True)
    ]


def _version(found: BackendRegistry, name: str) -> str:
    try:
        return found.create(name, DriverOptions(1)).version
    except Exception as error:  # a foreign backend may raise anything, and that is the answer
        raise TrialError(f"{type(error).__name__}: {error}") from error


class _Collector:
    """A processor that collects log entries and prints none."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._entries = entries

    def __call__(self, logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        self._entries.append(dict(event))
        raise structlog.DropEvent


if __name__ == "__main__":
    sys.exit(main())
