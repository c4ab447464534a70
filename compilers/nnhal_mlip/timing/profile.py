"""The figures of an accelerator, as a TOML file that a user can replace: see ``profiles/cn106.toml``.

Nothing public gives the clock, the rates or the latencies of the accelerator. What comes of a profile is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path

from nnhal.errors import NnhalError
from nnhal.given_files import read_given_toml
from nnhal_mlip.program.program import TensorType

DEFAULT_PROFILE = "cn106"
MAX_FIGURE = 10**12

_FOLDER = Path(__file__).parent / "profiles"
_MAY_BE_ZERO = ("ddr_start_cycles", "issue_cycles", "barrier_cycles", "firmware_ns")


class ProfileError(NnhalError):
    """A file describes no profile. The message names file and key, and says what was got and what was expected."""


@dataclass(frozen=True, slots=True)
class TimingProfile:
    """The figures. Rates are per cycle; all but the DDR's are those of one tile."""

    name: str
    """The file's, without ``.toml``."""
    clock_hz: int
    array_positions: int
    """Output positions that the array has accumulators for."""
    array_channels: int
    """Output channels that the array has accumulators for."""
    array_fp16_products: int
    """Products that an accumulator takes in a cycle."""
    array_int8_products: int
    irregular_fp16_elements: int
    """Elements of the irregular unit in a cycle."""
    irregular_int8_elements: int
    read_bytes: int
    """From OCM."""
    write_bytes: int
    """To OCM."""
    ddr_bytes: int
    """Between DDR and all tiles together."""
    ddr_start_cycles: int
    """The cycles of the start of a transfer."""
    issue_cycles: int
    """The cycles of issuing a task."""
    barrier_cycles: int
    firmware_ns: int
    """The firmware's time of each inference, beside the hardware."""
    host_products_per_ns: int
    """The products a nanosecond of the host, which computes in float32 what the accelerator does not."""
    host_bytes_per_ns: int
    """The bytes a nanosecond of the host's memory."""
    host_operator_ns: int
    """The time of each operator on the host, beside its products and bytes."""

    def products(self, element_type: TensorType) -> int:
        """Return how many products an accumulator takes in a cycle. All but the types of one byte take fp16's time."""
        return self.array_int8_products if element_type <= TensorType.UINT8 else self.array_fp16_products

    def elements(self, element_type: TensorType) -> int:
        """Return how many elements the irregular unit takes in a cycle."""
        return self.irregular_int8_elements if element_type <= TensorType.UINT8 else self.irregular_fp16_elements

    def macs(self, element_type: TensorType) -> int:
        """Return how many products the array of a tile takes in a cycle at most."""
        return self.array_positions * self.array_channels * self.products(element_type)

    def nanoseconds(self, cycles: float) -> float:
        return cycles * 1e9 / self.clock_hz


def profile_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def read_profile(source: str | PathLike[str] = DEFAULT_PROFILE) -> TimingProfile:
    """Return a shipped profile by its name, or the profile of a TOML file.

    Raises:
        ProfileError: there is no such profile or file, or the file does not describe a profile.
    """
    path = _FOLDER / f"{source}.toml" if source in profile_names() else Path(source)
    try:
        table = read_given_toml(path, "a profile")
    except OSError as error:
        known = ", ".join(profile_names())
        raise ProfileError(f"{path} cannot be read: {error.strerror}; expected a file, or one of {known}") from error
    except ValueError as error:
        raise ProfileError(str(error)) from error
    return _profile(table, str(path), path.stem)


def _profile(table: dict[str, object], file: str, name: str) -> TimingProfile:
    keys = [field.name for field in fields(TimingProfile) if field.name != "name"]
    if unknown := table.keys() - set(keys):
        raise ProfileError(f"{file}: {min(unknown)} is an unknown key, expected {', '.join(keys)}")
    figures: dict[str, int] = {}
    for key in keys:
        least = 0 if key in _MAY_BE_ZERO else 1
        expected = f"expected a whole number from {least} to {MAX_FIGURE}"
        if key not in table:
            raise ProfileError(f"{file}: {key} is missing, {expected}")
        value = table[key]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_FIGURE:
            raise ProfileError(f"{file}: {key} is {value!r}, {expected}")
        figures[key] = value
    return TimingProfile(name=name, **figures)
