"""Changes to a system on the command line: one key of a memory file at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

from nnhal_cascade.hardware.memory import System
from nnhal_cascade.hardware.memory_file import system_from

_OPTION = "--set"


def changed(system: System, settings: Sequence[str]) -> System:
    """Return a system with other values: ``clock_hz=400_000_000``, or ``sram.bandwidth=4`` for a key of a region.

    Raises:
        ValueError: a setting is not KEY=VALUE, there is no such region or key, or the value is not allowed.
    """
    if not settings:
        return system
    table: dict[str, object] = {"accelerator": system.accelerator.name, "clock_hz": system.clock_hz}
    regions = {region.name: _keys(system, region.name) for region in system.regions}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise ValueError(f"{_OPTION} {setting!r}: expected KEY=VALUE or REGION.KEY=VALUE")
        name, dot, key_of_region = key.rpartition(".")
        if dot and name not in regions:
            raise ValueError(f"{_OPTION} {setting!r}: got region {name!r}, expected one of {', '.join(regions)}")
        target = regions[name] if dot else table
        target[key_of_region] = _value(text)
    return system_from({**table, "region": list(regions.values())}, _OPTION, system.name)


def _keys(system: System, name: str) -> dict[str, object]:
    region = system.region(name)
    return {
        "name": region.name,
        "size": region.size,
        "bandwidth": region.bandwidth,
        "read_latency": region.read_latency,
        "write_latency": region.write_latency,
        "burst": region.burst,
        "holds": sorted(region.holds),
    }


def _value(text: str) -> object:
    """A value of TOML, or a text without its quotation marks."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
