"""Systems as TOML: an accelerator, and the memories around it.

    accelerator = "u55-128"
    clock_hz = 500_000_000

    [[region]]
    name = "sram"
    size = "256KiB"
    bandwidth = 8.0          # bytes a cycle of the NPU
    read_latency = 32        # cycles
    write_latency = 32
    burst = 32               # bytes
    holds = ["activations", "constants"]

The regions are in the order that ``System`` gives a meaning to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import TypeVar

from nnhal.given_files import read_given_toml
from nnhal_cascade.hardware.accelerators import ACCELERATORS, accelerator
from nnhal_cascade.hardware.memory import Content, MemoryRegion, System

_UNITS = {
    "": 1,
    "B": 1,
    "bytes": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``240KiB``, ``1.5 MiB``, ``500 kB`` or ``65536``.

    Raises:
        ValueError: it is no size of at least one whole byte.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match["unit"]) if match else None
    if match is None or unit is None:
        raise ValueError(
            f"{text!r} is no size: expected a number of bytes, or of kB, MB, GB, KiB, MiB or GiB, such as 240KiB"
        )
    size = Fraction(match["number"]) * unit
    if size.denominator != 1 or size < 1:
        raise ValueError(f"{text!r} is no size: it is {float(size):g} bytes, expected a whole number of at least 1")
    return int(size)


_FOLDER = Path(__file__).parent / "systems"
_DEFAULTS = {"u55": "high-end-embedded", "u65": "client-server"}
"""By family, the system that Vela takes if none is asked for."""

_Value = TypeVar("_Value")


def read_system(path: str | PathLike[str]) -> System:
    """Return the system that a TOML file describes. Its name is the file's, without ``.toml``.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no TOML, or does not describe a system; the sentence names the file and the key.
    """
    path = Path(path)
    return system_from(read_given_toml(path, "a system"), str(path), path.stem)


def system_from(table: Mapping[str, object], source: str, name: str) -> System:
    """Return the system that a table describes whose keys are those of a file. ``source`` is where it is from.

    Raises:
        ValueError: it does not describe a system; the sentence begins with ``source``.
    """
    return _system(_Table(source, "", table), name)


def system_for(name: str) -> System:
    """Return a shipped system: ``u55-128`` with its family's default memories, or ``u55-128-deep-embedded``.

    Raises:
        ValueError: none has that name.
    """
    for accelerator_name, memories in _shipped():
        family = accelerator_name.partition("-")[0]
        default = accelerator_name if memories == _DEFAULTS[family] else None
        if name in (default, f"{accelerator_name}-{memories}"):
            system = read_system(_FOLDER / f"{family}-{memories}.toml")
            return replace(system, name=name, accelerator=accelerator(accelerator_name))
    raise ValueError(f"unknown system {name!r}: expected one of {', '.join(system_names())}")


def system_names() -> tuple[str, ...]:
    """Return the names of the shipped systems: the accelerators, then each with each of the memories of its family."""
    return (*ACCELERATORS, *(f"{accelerator_name}-{memories}" for accelerator_name, memories in _shipped()))


def _shipped() -> list[tuple[str, str]]:
    """Accelerators, each with the memories of its family."""
    files = sorted(path.stem.partition("-") for path in _FOLDER.glob("*.toml"))
    return [(name, memories) for name in ACCELERATORS for family, _, memories in files if name.startswith(family)]


class _Table:
    """A table of a file, whose keys are taken out one by one."""

    def __init__(self, file: str, place: str, values: Mapping[str, object]) -> None:
        self.file = file
        self._place = place
        self._values = dict(values)

    def take(self, key: str, expected: str, convert: Callable[[object], _Value | None]) -> _Value:
        """Return a converted value. ``convert`` returns None if the value is not what was expected."""
        if key not in self._values:
            raise self.error(key, f"is missing, expected {expected}")
        value = self._values.pop(key)
        try:
            converted = convert(value)
        except ValueError as error:
            raise self.error(key, str(error)) from error
        if converted is None:
            raise self.error(key, f"is {value!r}, expected {expected}")
        return converted

    def finish(self, known: str) -> None:
        """Refuse keys that were not taken."""
        if self._values:
            raise self.error(next(iter(self._values)), f"is an unknown key, expected {known}")

    def error(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self.file}: {self._place}{key} {problem}")


def _system(table: _Table, name: str) -> System:
    system = System(
        name=name,
        accelerator=table.take(
            "accelerator",
            f"one of {', '.join(ACCELERATORS)}",
            lambda value: ACCELERATORS.get(value) if isinstance(value, str) else None,
        ),
        clock_hz=table.take("clock_hz", "a whole number of at least 1", _positive),
        regions=tuple(
            _region(_Table(table.file, f"region[{index}].", values))
            for index, values in enumerate(table.take("region", "tables [[region]]", _tables))
        ),
    )
    table.finish("accelerator, clock_hz or region")
    names = [region.name for region in system.regions]
    for index, each in enumerate(names):
        if each in names[:index]:
            raise table.error(f"region[{index}].name", f"is {each!r} again, expected a name of its own")
    for content in Content:
        if not any(content in region.holds for region in system.regions):
            raise table.error("region", f"has none that holds {content.value}, expected at least one")
    if system.constants == system.working:
        raise table.error(
            "region",
            f"has constants at rest in {system.working.name}, which is the working memory; "
            "expected another one that holds constants after it",
        )
    return system


def _region(table: _Table) -> MemoryRegion:
    region = MemoryRegion(
        name=table.take("name", "a name", lambda value: value if isinstance(value, str) and value else None),
        size=table.take("size", 'a size such as "256KiB"', _size),
        bandwidth=table.take("bandwidth", "bytes a cycle, more than 0", _bandwidth),
        read_latency=table.take("read_latency", "a whole number of cycles, 0 or more", _count),
        write_latency=table.take("write_latency", "a whole number of cycles, 0 or more", _count),
        burst=table.take("burst", "a whole number of bytes, at least 1", _positive),
        holds=table.take("holds", f"a list of {' and '.join(content.value for content in Content)}", _contents),
    )
    table.finish("name, size, bandwidth, read_latency, write_latency, burst or holds")
    return region


def _tables(value: object) -> list[dict[str, object]] | None:
    return value if isinstance(value, list) and value and all(isinstance(each, dict) for each in value) else None


def _size(value: object) -> int | None:
    return parse_size(value) if isinstance(value, str) else _positive(value)


def _bandwidth(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value) if value > 0 else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _positive(value: object) -> int | None:
    return _count(value) or None


def _contents(value: object) -> frozenset[Content] | None:
    known = {content.value for content in Content}
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each in known for each in value):
        return None
    return frozenset(map(Content, value))
