"""Readers of the files that Vela writes: the schedule of ``--verbose-schedule`` and the summary as CSV.

Its two cores write the same things in different words: shapes as ``[1, 28, 28, 64]`` or ``<Shape4D [1, 28, 28, 64]>``,
buffers as ``Weight buffer = 944 bytes (Double)`` or as ``Weight buffer1`` and ``Weight buffer2``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from nnhal_cascade.geometry.box import Shape

_OPERATION = re.compile(r"^\t(\d+): Operation (.*?)\s+- OFM (.*)$")
_FIELD = re.compile(r"^\t\t([A-Za-z][A-Za-z0-9 ]*?)\s*[=:] (.*)$")
_LEFT = re.compile(r"^\s*CPU: (\S+) = ", re.MULTILINE)
_REFUSED = re.compile(r"^Warning \(supported operators\) operator: (\w+), ", re.MULTILINE)
_NOTHING = "Passthrough"
"""Vela's name for an output that it does not compute: one that nothing does, or the CPU."""
_WEIGHTS = "total_npu_encoded_weights"
_NUMBERS = re.compile(r"\d+")


class VelaBuffer(StrEnum):
    """Vela's way of bringing the weights of an operation to the NPU."""

    NONE = "none"
    """The NPU reads them from flash."""
    SINGLE = "single"
    """They are copied to a buffer before the operation."""
    DOUBLE = "double"
    """Two buffers take turns, so that a slice of channels is copied while the one before is computed."""


@dataclass(frozen=True, slots=True)
class VelaOperation:
    """An operation as Vela schedules it."""

    index: int
    name: str
    """Its kind, or the name of its output: the cores differ."""
    output: Shape
    stripe: Shape
    """The extents of a stripe of the output."""
    cascade: int
    """The index of the last operation of its cascade, 0 if it is in none."""
    buffer: VelaBuffer = VelaBuffer.NONE
    slices: tuple[int, ...] = ()
    """The borders of the slices of channels, from 0 to all; empty if it has no weights."""


@dataclass(frozen=True, slots=True)
class VelaSchedule:
    """Operations in the order in which they run."""

    operations: tuple[VelaOperation, ...]


@dataclass(frozen=True, slots=True)
class VelaSummary:
    """Totals by Vela's own model."""

    sram: int
    """Bytes."""
    cycles: int
    weights: int = 0
    """Bytes of all weights as they are encoded; 0 if Vela does not say."""


def parse_schedule(text: str) -> VelaSchedule:
    """Return the schedule in what Vela printed. Raises ValueError if there is none."""
    operations = tuple(_operation(*block) for block in _blocks(text) if block[0][2] != _NOTHING)
    if not operations:
        raise ValueError("Vela printed no schedule: there is no line with 'Operation' in its output")
    return VelaSchedule(operations)


def parse_summary(text: str) -> VelaSummary:
    """Return the totals of the last row of a summary. Raises ValueError if it has no such columns."""
    rows = list(csv.DictReader(io.StringIO(text)))
    try:
        last = rows[-1]
        return VelaSummary(
            round(float(last["sram_memory_used"]) * 1024),
            round(float(last["cycles_total"])),
            round(float(last.get(_WEIGHTS, 0))),
        )
    except (IndexError, KeyError, ValueError) as error:
        raise ValueError(f"Vela's summary has no usable sram_memory_used and cycles_total: {error!r}") from error


def cpu_operations(text: str) -> tuple[str, ...]:
    """Return the kind of each operation that is left to the CPU: what Vela warns of, or else what it lists."""
    refused = tuple(match[1] for match in _REFUSED.finditer(text))
    return refused or tuple(match[1] for match in _LEFT.finditer(text) if match[1] != _NOTHING)


def _blocks(text: str) -> Iterator[tuple[re.Match[str], dict[str, str]]]:
    """The heading of each operation, with its fields."""
    heading: re.Match[str] | None = None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        found = _OPERATION.match(line)
        if found or not line.startswith("\t\t"):
            if heading is not None:
                yield heading, fields
            heading, fields = found, {}
        elif heading is not None and (pair := _FIELD.match(line)):
            fields[pair[1]] = pair[2]
    if heading is not None:
        yield heading, fields


def _operation(heading: re.Match[str], fields: dict[str, str]) -> VelaOperation:
    index, name, output = int(heading[1]), heading[2], heading[3].split("(")[0].replace("Shape4D", "")
    try:
        stripe, cascade = fields["OFM Stripe"].replace("Shape4D", ""), int(fields["Assigned Cascade"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"Vela's operation {index} has no usable stripe and cascade: {error!r}") from error
    slices = _numbers(fields.get("Depth slices", "")) if _has_weights(fields) else ()
    return VelaOperation(index, name, _shape(output), _shape(stripe), cascade, _buffer(fields), slices)


def _has_weights(fields: dict[str, str]) -> bool:
    return bool(_numbers(fields.get("Encoded Weights", "")))


def _buffer(fields: dict[str, str]) -> VelaBuffer:
    for kind in (VelaBuffer.SINGLE, VelaBuffer.DOUBLE):
        if kind in fields.get("Weight buffer", "").lower():
            return kind
    if "Weight buffer2" in fields:
        return VelaBuffer.DOUBLE
    return VelaBuffer.SINGLE if "Weight buffer1" in fields else VelaBuffer.NONE


def _shape(text: str) -> Shape:
    """Rows, columns and channels of ``1, 28, 28, 64``; axes in front of them count as rows."""
    numbers = _numbers(text)
    if not numbers:
        raise ValueError(f"Vela's shape {text.strip()!r} has no dimensions")
    *rows, columns, channels = (1, *numbers)
    return Shape(prod(rows), columns, channels)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBERS.findall(text)))
