"""Operations of a subgraph that the NPU compiles together.

Each operation is cut into stripes on its own. An operation that does not fit the SRAM fails, and the rest is compiled
in connected groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal.support.parts import groups_of
from nnhal.types import ErrorStatus
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.limits import GRANULE, SRAM_BYTES
from nnhal_devices.ethos_n.table import geometry_of


@dataclass(frozen=True, slots=True)
class Stripes:
    """``count`` stripes of at most ``rows`` and ``channels``. Each takes at most ``bytes`` of SRAM."""

    rows: int
    channels: int
    bytes: int
    count: int


def cut(geometry: Geometry, sram_bytes: int = SRAM_BYTES) -> Stripes | None:
    """The cut with the fewest stripes, of all channels, half of them and so on. None if no cut fits."""
    fitting = (_tallest(geometry, channels, sram_bytes) for channels in _parts(geometry.channels))
    return min((stripes for stripes in fitting if stripes is not None), key=lambda s: s.count, default=None)


def smallest(geometry: Geometry) -> Stripes:
    """The cut into the smallest stripes: a row of one granule of channels. It may not fit."""
    return _stripes(geometry, 1, min(GRANULE, geometry.channels))


def _parts(channels: int) -> Iterator[int]:
    """The number of all channels, then about half of it and so on, in granules."""
    yield channels
    while channels > GRANULE:
        channels = -(-channels // (2 * GRANULE)) * GRANULE
        yield channels


def _tallest(geometry: Geometry, channels: int, sram_bytes: int) -> Stripes | None:
    """The stripes with the most rows that fit, found by bisection."""
    fits, too_many = 0, geometry.height + 1
    while too_many - fits > 1:
        rows = (fits + too_many) // 2
        if geometry.stripe_bytes(rows, channels) <= sram_bytes:
            fits = rows
        else:
            too_many = rows
    return _stripes(geometry, fits, channels) if fits else None


def _stripes(geometry: Geometry, rows: int, channels: int) -> Stripes:
    count = -(-geometry.height // rows) * -(-geometry.channels // channels)
    return Stripes(rows, channels, geometry.stripe_bytes(rows, channels), count)


def optimize(model: ResolvedModel, sram_bytes: int = SRAM_BYTES) -> OptimizationViews:
    geometries = _geometries(model)
    stripes = [cut(geometry, sram_bytes) for geometry in geometries]
    groups = groups_of(model, [each is None for each in stripes])
    return OptimizationViews(
        tuple(Substitution(tuple(group), _compiled([s for n in group if (s := stripes[n])])) for group in groups),
        tuple(
            FailedSubgraph((number,), _reason(model, number, geometries[number], sram_bytes))
            for number, each in enumerate(stripes)
            if each is None
        ),
    )


def sram_of(model: ResolvedModel, sram_bytes: int) -> int:
    """The most bytes of SRAM that an operation of a model takes, if at most ``sram_bytes`` may be taken.

    Raises RESOURCE_EXHAUSTED_PERSISTENT if one does not fit.
    """
    most = 0
    for number, geometry in enumerate(_geometries(model)):
        stripes = cut(geometry, sram_bytes)
        if stripes is None:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, _reason(model, number, geometry, sram_bytes))
        most = max(most, stripes.bytes)
    return most


def _geometries(model: ResolvedModel) -> list[Geometry]:
    known = propagate_dimensions(model)
    return [
        geometry_of(model.context(0, number, known), [known[index] for index in operation.outputs])
        for number, operation in enumerate(model.model.main.operations)
    ]


def _compiled(stripes: Sequence[Stripes]) -> str:
    most, count = max(each.bytes for each in stripes), sum(each.count for each in stripes)
    return f"compiled: {len(stripes)} operations, {most} bytes of SRAM, {count} stripes"


def _reason(model: ResolvedModel, number: int, geometry: Geometry, sram_bytes: int) -> str:
    least, place = smallest(geometry), describe_operation(model.model, number)
    return (
        f"{place}: a row of {least.channels} channels with its input and weights takes {least.bytes} bytes of SRAM, "
        f"there are {sram_bytes}"
    )
