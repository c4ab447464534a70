"""The accelerators that are known by name, with the figures that Arm's compiler Vela publishes for them."""

from __future__ import annotations

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.hardware.accelerator import Accelerator

_LARGEST_BLOCK = Shape(32, 64, 128)

_U55_32 = Accelerator(
    name="u55-32",
    macs=32,
    cores=1,
    block_unit=Shape(1, 1, 4),
    input_unit=Shape(1, 1, 8),
    largest_block=_LARGEST_BLOCK,
    banks=16,
    reserved_output_banks=2,
    reserved_end_banks=0,
    input_granules=(2, 2, 4),
    elementwise_granules=(2, 2, 4),
    accumulator_granules=(4, 4),
    output_cycles=(2.0, 3.0, 3.0, 3.0, 4.0, 6.0, 1.0, 2.0),
    activation_cycles=(1.0, 1.0, 0.0),
    delays=(3, 7),
)
_U55_64 = Accelerator(
    name="u55-64",
    macs=64,
    cores=1,
    block_unit=Shape(1, 1, 8),
    input_unit=Shape(1, 1, 8),
    largest_block=_LARGEST_BLOCK,
    banks=16,
    reserved_output_banks=2,
    reserved_end_banks=0,
    input_granules=(2, 2, 4),
    elementwise_granules=(2, 2, 4),
    accumulator_granules=(4, 8),
    output_cycles=(1.0, 1.5, 1.5, 1.5, 2.0, 3.0, 0.5, 1.0),
    activation_cycles=(1.0, 1.0, 0.0),
    delays=(2, 3),
)
_U55_128 = Accelerator(
    name="u55-128",
    macs=128,
    cores=1,
    block_unit=Shape(1, 2, 8),
    input_unit=Shape(1, 2, 8),
    largest_block=_LARGEST_BLOCK,
    banks=24,
    reserved_output_banks=2,
    reserved_end_banks=2,
    input_granules=(4, 4, 8),
    elementwise_granules=(4, 4, 8),
    accumulator_granules=(8, 12),
    output_cycles=(0.75, 1.25, 0.75, 0.75, 1.0, 1.5, 0.25, 0.5),
    activation_cycles=(1.0, 0.5, 0.0),
    delays=(2, 3),
)


def _two_by_two(name: str, cores: int) -> Accelerator:
    """An accelerator whose cores have 256 multipliers each."""
    return Accelerator(
        name=name,
        macs=256 * cores,
        cores=cores,
        block_unit=Shape(2, 2, 8),
        input_unit=Shape(2, 2, 8),
        largest_block=_LARGEST_BLOCK,
        banks=48,
        reserved_output_banks=2,
        reserved_end_banks=2,
        input_granules=(8, 8, 16),
        elementwise_granules=(8, 8, 16),
        accumulator_granules=(16, 20),
        output_cycles=tuple(cycles / cores for cycles in (0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25)),
        activation_cycles=tuple(cycles / cores for cycles in (1.0, 0.25, 0.0)),
        delays=(2, 2),
    )


ACCELERATORS = {
    each.name: each
    for each in (
        _U55_32,
        _U55_64,
        _U55_128,
        _two_by_two("u55-256", 1),
        _two_by_two("u65-256", 1),
        _two_by_two("u65-512", 2),
    )
}
"""By name, smallest first in each family."""


def accelerator(name: str) -> Accelerator:
    """Return an accelerator by name, such as ``u55-128``.

    Raises:
        ValueError: there is no such accelerator.
    """
    found = ACCELERATORS.get(name)
    if found is None:
        raise ValueError(f"unknown accelerator {name!r}: expected one of {', '.join(ACCELERATORS)}")
    return found
