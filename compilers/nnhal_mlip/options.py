"""The options of the device: how many tiles it has, what a cycle takes, and how it looks at itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from nnhal_mlip.program.program import TILE_COUNTS
from nnhal_mlip.timing.profile import DEFAULT_PROFILE, ProfileError, TimingProfile, read_profile

TILES, PINNED, PROFILE, PUBLIC, CHECKED = OPTIONS = ("tiles", "wb_pin_ocm", "profile", "public", "checked")
"""The names of the options."""
_TILES = {str(count): count for count in TILE_COUNTS}
_SWITCH = {"true": True, "false": False, "1": True, "0": False}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MlipOptions:
    profile: TimingProfile
    tiles: int = 8
    """How many tiles a network may take."""
    pinned: bool = False
    """True if weights are put into on-chip memory when a network is prepared."""
    public: bool = False
    """True if the device takes only what the public flow takes."""
    checked: bool = False
    """True if reading a byte of on-chip memory that was not written for the reader is an error."""


def read_options(given: Mapping[str, str]) -> MlipOptions:
    """Read options whose names are all known. Raises ValueError that says which one is wrong."""
    return MlipOptions(
        _profile(given.get(PROFILE, DEFAULT_PROFILE)),
        _one_of(_TILES, TILES, given.get(TILES, "8")),
        *(_one_of(_SWITCH, name, given.get(name, "false")) for name in (PINNED, PUBLIC, CHECKED)),
    )


def _one_of(allowed: Mapping[str, _T], name: str, text: str) -> _T:
    if text not in allowed:
        raise ValueError(f"option {name}: got {text!r}, expected {' or '.join(allowed)}")
    return allowed[text]


def _profile(source: str) -> TimingProfile:
    try:
        return read_profile(source)
    except ProfileError as error:
        raise ValueError(f"option {PROFILE}: {error}") from error
