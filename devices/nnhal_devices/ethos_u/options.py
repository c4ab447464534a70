"""The options of the device: which accelerator it emulates, its memories, and how it looks at itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nnhal_cascade.graph.feeds import InputPlace, input_place
from nnhal_cascade.hardware.accelerators import ACCELERATORS
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.hardware.memory_file import parse_size, read_system, system_for

OPTIONS = ("accelerator", "sram", "memory", "checked", "like_vela", "input")
"""The names of the options."""
ACCELERATOR, SRAM, MEMORY, CHECKED, LIKE_VELA, INPUT = OPTIONS
DEFAULT_ACCELERATOR = "u55-128"
_T = TypeVar("_T")
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class EthosUOptions:
    system: System
    sram: int
    """Bytes of the working memory that a network may take."""
    checked: bool = False
    """True if the owner of each byte that is read is looked at."""
    like_vela: bool = False
    """True if what is beyond the report of Vela 5.2 is refused."""
    input: InputPlace = InputPlace.RESIDENT


def read_options(given: Mapping[str, str]) -> EthosUOptions:
    """Read options whose names are all known. Raises ValueError and OSError that say which one is wrong."""
    system = _system(given)
    size = system.working.size
    sram = _of(SRAM, parse_size, given[SRAM]) if SRAM in given else size
    if sram > size:
        raise ValueError(f"option {SRAM}: got {sram} bytes, expected at most the {size} of {system.working.name}")
    place = _of(INPUT, input_place, given.get(INPUT, InputPlace.RESIDENT))
    return EthosUOptions(system, sram, _switch(given, CHECKED), _switch(given, LIKE_VELA), place)


def _switch(given: Mapping[str, str], name: str) -> bool:
    switch = given.get(name, "false")
    if switch not in _SWITCH:
        raise ValueError(f"option {name}: got {switch!r}, expected true or false")
    return _SWITCH[switch]


def _system(given: Mapping[str, str]) -> System:
    if MEMORY not in given:
        name = given.get(ACCELERATOR, DEFAULT_ACCELERATOR)
        if name not in ACCELERATORS:
            raise ValueError(f"option {ACCELERATOR}: got {name!r}, expected one of {', '.join(ACCELERATORS)}")
        return system_for(name)
    if ACCELERATOR in given:
        raise ValueError(f"options {ACCELERATOR} and {MEMORY}: got both, expected one: the file names its accelerator")
    return _of(MEMORY, read_system, given[MEMORY])


def _of(name: str, read: Callable[[str], _T], text: str) -> _T:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from error
