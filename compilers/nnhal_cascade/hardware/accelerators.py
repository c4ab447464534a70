"""The NPU's own numbers, and the accelerators that are known by name, with the figures of Arm's compiler Vela."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnhal_cascade.geometry.box import Shape


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One configuration of an Ethos-U55 or U65."""

    name: str
    """Such as ``u55-128``: the family, and multiply-adds a cycle of all cores."""
    macs: int
    cores: int
    block_unit: Shape
    """The smallest block of an output (the micro-block)."""
    input_unit: Shape
    """The granularity of input blocks."""
    largest_block: Shape
    banks: int
    """Banks of 1 KiB of the NPU's own memory (SHRAM)."""
    reserved_output_banks: int
    reserved_end_banks: int
    input_granules: tuple[int, int, int]
    """Banks, for inputs of 8, 16 and 32 bits."""
    elementwise_granules: tuple[int, int, int]
    """Banks, for inputs of elementwise operations of 8, 16 and 32 bits."""
    accumulator_granules: tuple[int, int]
    """Banks, for accumulators of 32 and 40 bits."""
    output_cycles: tuple[float, ...]
    """Cycles an element of the output, by kind of operation."""
    activation_cycles: tuple[float, ...]
    """Cycles an element of the output, by kind of activation: table, clamp, none."""
    delays: tuple[int, int]
    """Cycles that a block of one unit waits, for accumulators of 32 and 40 bits."""
    only_block: Shape | None = None
    """The only block of an output that is taken, cut to stripes that are smaller; None for the best of all."""

    def with_block(self, text: str) -> Accelerator:
        """Return it with one block for all stripes, such as ``16x8x16``: rows, columns, channels.

        Raises:
            ValueError: it is no block of this NPU.
        """
        unit, largest = self.block_unit, self.largest_block
        unit = unit._replace(channels=16)
        numbers = [int(each) if each.isdecimal() else 0 for each in text.split("x")]
        if len(numbers) != len(unit) or not all(
            0 < each <= most and each % step == 0 for each, most, step in zip(numbers, largest, unit, strict=True)
        ):
            raise ValueError(
                f"got block {text!r}, expected ROWSxCOLUMNSxCHANNELS in multiples of {'x'.join(map(str, unit))}, "
                f"up to the {'x'.join(map(str, largest))} of {self.name}"
            )
        return replace(self, only_block=Shape(*numbers))


_U55_32 = Accelerator(
    name="u55-32",
    macs=32,
    cores=1,
    block_unit=Shape(1, 1, 4),
    input_unit=Shape(1, 1, 8),
    largest_block=Shape(32, 64, 128),
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
_U55_64 = replace(
    _U55_32,
    name="u55-64",
    macs=64,
    block_unit=Shape(1, 1, 8),
    accumulator_granules=(4, 8),
    output_cycles=(1.0, 1.5, 1.5, 1.5, 2.0, 3.0, 0.5, 1.0),
    delays=(2, 3),
)
_U55_128 = replace(
    _U55_64,
    name="u55-128",
    macs=128,
    block_unit=Shape(1, 2, 8),
    input_unit=Shape(1, 2, 8),
    banks=24,
    reserved_end_banks=2,
    input_granules=(4, 4, 8),
    elementwise_granules=(4, 4, 8),
    accumulator_granules=(8, 12),
    output_cycles=(0.75, 1.25, 0.75, 0.75, 1.0, 1.5, 0.25, 0.5),
    activation_cycles=(1.0, 0.5, 0.0),
)
_U55_256 = replace(
    _U55_128,
    name="u55-256",
    macs=256,
    block_unit=Shape(2, 2, 8),
    input_unit=Shape(2, 2, 8),
    banks=48,
    input_granules=(8, 8, 16),
    elementwise_granules=(8, 8, 16),
    accumulator_granules=(16, 20),
    output_cycles=(0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25),
    activation_cycles=(1.0, 0.25, 0.0),
    delays=(2, 2),
)
_U65_512 = replace(
    _U55_256,
    name="u65-512",
    macs=512,
    cores=2,
    output_cycles=tuple(cycles / 2 for cycles in _U55_256.output_cycles),
    activation_cycles=tuple(cycles / 2 for cycles in _U55_256.activation_cycles),
)

ACCELERATORS = {
    each.name: each for each in (_U55_32, _U55_64, _U55_128, _U55_256, replace(_U55_256, name="u65-256"), _U65_512)
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
