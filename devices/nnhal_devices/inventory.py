"""``python -m nnhal_devices.inventory``: which drivers can be made here, as JSON.

``drivers`` has name, version and, where it cannot be made, the problem; ``searched`` the directories of backend files,
``refused`` the files and directories that were not used, and why.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from pydantic import ValidationError

from nnhal_devices.driver import DriverOptions
from nnhal_devices.dynamic import register_backends
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.registry import BackendRegistry, registry
from nnhal_hosting.settings import describe_invalid


def main() -> int:
    """Print it; 2 where the settings in the environment are wrong."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a backend prints is no part of the answer
    try:
        settings = DeviceSettings()
    except ValidationError as error:
        print(describe_invalid(error), file=sys.stderr)
        return 2
    entries: list[dict[str, Any]] = []
    structlog.configure(processors=[_Collector(entries)])
    register_backends(settings.backend_paths, registry())
    refused = [
        {"path": entry.get("file") or entry["directory"], "reason": entry["reason"]}
        for entry in entries
        if "reason" in entry
    ]
    searched = [str(path) for path in settings.backend_paths]
    with answers:
        json.dump({"drivers": inventory(registry()), "searched": searched, "refused": refused}, answers)
    return 0


def inventory(found: BackendRegistry) -> list[dict[str, str | None]]:
    """Each driver, made once."""
    return [_examined(found, name) for name in found.names()]


def _examined(found: BackendRegistry, name: str) -> dict[str, str | None]:
    try:
        driver = found.create(name, DriverOptions(1))
    except Exception as error:  # the code is another's, and what it raises is the answer
        return {"name": name, "version": None, "problem": f"{type(error).__name__}: {error}"}
    return {"name": name, "version": driver.version, "problem": None}


class _Collector:
    """A processor that keeps log entries and lets none out."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._entries = entries

    def __call__(self, logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        self._entries.append(dict(event))
        raise structlog.DropEvent


if __name__ == "__main__":
    sys.exit(main())
