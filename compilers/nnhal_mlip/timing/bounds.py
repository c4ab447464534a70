"""What no schedule can be faster than."""

from __future__ import annotations

from nnhal_mlip.program.program import MlipProgram, TensorType
from nnhal_mlip.program.sizes import bytes_of, ceil_divide
from nnhal_mlip.timing.profile import TimingProfile


def macs_bound(macs: int, tiles: int, element_type: TensorType, profile: TimingProfile) -> int:
    """Return the cycles that products take if the arrays of all tiles are always full."""
    return ceil_divide(macs, tiles * profile.macs(element_type))


def bytes_bound(count: int, profile: TimingProfile) -> int:
    """Return the cycles that bytes of DDR take in a single transfer that starts at once."""
    return ceil_divide(count, profile.ddr_bytes)


def program_bound(program: MlipProgram, profile: TimingProfile) -> int:
    """Return the cycles that a run of a program takes at least, whatever its order, by its products and its bytes."""
    macs = sum(layer.macs for layer in program.layers)
    moved = sum(bytes_of(transfer.ddr_bytes) for transfer in program.transfers if not transfer.at_start)
    return max(macs_bound(macs, program.tiles, program.type, profile), bytes_bound(moved, profile))
