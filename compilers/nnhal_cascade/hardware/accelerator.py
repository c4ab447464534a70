"""The NPU's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

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
