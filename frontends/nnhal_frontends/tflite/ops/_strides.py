"""Strided slices, with TFLite's shorthands expanded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """A strided slice in TFLite's form. Bit i of a mask belongs to entry i; most entries name an axis."""

    begins: Sequence[int]
    ends: Sequence[int]
    strides: Sequence[int]
    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_mask: int = 0


@dataclass(slots=True)
class AxisSlices:
    """A strided slice in the HAL's form: one entry and one bit for each axis."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    begin_mask: int = 0
    end_mask: int = 0
    shrink_mask: int = 0
    result: list[int | None] = field(default_factory=list)
    """The axes of the result in order: an axis of the tensor, or None for a new axis."""

    def take(self, begin: int | None, end: int | None, stride: int = 1, shrink: bool = False) -> None:
        """Add the next axis, from ``begin`` up to ``end``, which is excluded. None is the end in that direction."""
        axis = len(self.begins)
        self.begins.append(begin or 0)
        self.ends.append(end or 0)
        self.strides.append(stride)
        self.begin_mask |= (begin is None) << axis
        self.end_mask |= (end is None) << axis
        self.shrink_mask |= shrink << axis
        if not shrink:
            self.result.append(axis)

    def ranges(self, lengths: Sequence[int]) -> list[range]:
        """Return the indices that are taken of axes of ``lengths``."""
        return [
            range(
                *slice(
                    None if self.begin_mask >> axis & 1 else self.begins[axis],
                    None if self.end_mask >> axis & 1 else self.ends[axis],
                    self.strides[axis],
                ).indices(length)
            )
            for axis, length in enumerate(lengths)
        ]


def written_out(spec: SliceSpec, rank: int) -> AxisSlices:
    """Return the slices of a tensor's axes. Raises ValueError if the entries do not fit the rank, or a stride is 0."""
    count = len(spec.begins)
    if not count == len(spec.ends) == len(spec.strides):
        raise ValueError(
            f"{count} begins, {len(spec.ends)} ends and {len(spec.strides)} strides, expected equal numbers"
        )
    if 0 in spec.strides:
        raise ValueError(f"strides {list(spec.strides)}, expected no 0")
    slices, named = AxisSlices(), sum(_names_axis(spec, entry) for entry in range(count))
    if spec.ellipsis_mask.bit_count() > 1 or named > rank:
        raise ValueError(f"{named} of {count} entries name axes of a tensor of rank {rank}")
    for entry in range(count):
        if spec.ellipsis_mask >> entry & 1:
            for _ in range(rank - named):
                slices.take(None, None)
        elif spec.new_axis_mask >> entry & 1:
            slices.result.append(None)
        elif spec.shrink_mask >> entry & 1:
            begin = spec.begins[entry]
            slices.take(begin, None if begin == -1 else begin + 1, shrink=True)
        else:
            begin_or_none = None if spec.begin_mask >> entry & 1 else spec.begins[entry]
            end_or_none = None if spec.end_mask >> entry & 1 else spec.ends[entry]
            slices.take(begin_or_none, end_or_none, spec.strides[entry])
    while len(slices.begins) < rank:
        slices.take(None, None)
    return slices


def _names_axis(spec: SliceSpec, entry: int) -> bool:
    return not (spec.ellipsis_mask | spec.new_axis_mask) >> entry & 1
