"""Places of models in the on-chip memory of the tiles, as the public driver chooses them (DPDK, cn10k_ml_ocm.c).

A model takes a group of tiles, which begins at a multiple of its size, and the same pages of each. Its weights have
pages of their own, from page 0 up; its scratch lies at the top, in pages that all models of a tile share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from nnhal.errors import NnhalError
from nnhal_mlip.program.metadata_blocks import ModelBlock
from nnhal_mlip.program.program import MAX_TILES, OCM_BYTES
from nnhal_mlip.program.sizes import ceil_divide

PAGE_SIZES = (1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10)
DEFAULT_PAGE_BYTES = 16 << 10


class OcmPlacementError(NnhalError):
    """A model has no place in OCM. The message says what it wants and what there is."""


class OcmPlacementMode(Enum):
    """Rule that says which of the places that are large enough a model's weights take."""

    LOWEST = "lowest"
    """The first: of the lowest tiles, and there from the lowest page on."""
    LARGEST = "largest"
    """The first of the largest gaps."""


@dataclass(frozen=True, slots=True)
class OcmDemand:
    """Demand of a model on each of its tiles."""

    tiles: int
    weight_pages: int
    scratch_pages: int
    relocatable: bool = True
    """To any group of tiles; otherwise to the first."""


@dataclass(frozen=True, slots=True)
class OcmPlacement:
    """Place of a model."""

    first_tile: int
    tiles: int
    first_page: int
    """The first page of its weights."""
    weight_pages: int
    scratch_pages: int
    """The last pages of each tile."""


def ocm_demand(model: ModelBlock, page_bytes: int = DEFAULT_PAGE_BYTES) -> OcmDemand:
    """Return what a model wants. One that cannot be relocated in OCM takes all pages of its tiles.

    Raises:
        OcmPlacementError: the pages have a size that the driver does not know.
    """
    pages = _pages(page_bytes)
    tiles = model.last_tile - model.first_tile + 1
    if not model.ocm_relocatable:
        return OcmDemand(tiles, pages, 0, bool(model.tile_relocatable))
    start, end = model.ocm_weights
    return OcmDemand(
        tiles,
        ceil_divide(end - start + 1, page_bytes),
        ceil_divide(OCM_BYTES - model.ocm_scratch_floor, page_bytes),
        bool(model.tile_relocatable),
    )


def place_model(
    demand: OcmDemand,
    loaded: Sequence[OcmPlacement] = (),
    page_bytes: int = DEFAULT_PAGE_BYTES,
    mode: OcmPlacementMode = OcmPlacementMode.LOWEST,
) -> OcmPlacement:
    """Return where a model comes to lie beside those that are loaded.

    Raises:
        OcmPlacementError: there is no place for it, or the pages have a size that the driver does not know.
    """
    pages = _pages(page_bytes)
    if not 1 <= demand.tiles <= MAX_TILES:
        raise OcmPlacementError(f"a model wants {demand.tiles} tiles, expected 1 to {MAX_TILES}")
    if demand.weight_pages + demand.scratch_pages > pages:
        raise OcmPlacementError(
            f"a model wants {demand.weight_pages} pages of weights and {demand.scratch_pages} of scratch, "
            f"expected at most {pages} together"
        )
    best: tuple[int, int, int] | None = None  # size of the gap, first tile, first page
    firsts = range(0, MAX_TILES - demand.tiles + 1, demand.tiles) if demand.relocatable else (0,)
    for first in firsts:
        for page, size in _gaps(first, demand, loaded, pages):
            if size >= demand.weight_pages and (best is None or size > best[0]):
                best = (size, first, page)
                if mode is OcmPlacementMode.LOWEST:
                    return _at(demand, first, page)
    if best is None:
        raise OcmPlacementError(
            f"a model wants {demand.weight_pages} pages of weights and {demand.scratch_pages} of scratch on each of "
            f"{demand.tiles} tiles; expected a group of tiles that has them beside the {len(loaded)} loaded models"
        )
    return _at(demand, best[1], best[2])


def _pages(page_bytes: int) -> int:
    if page_bytes not in PAGE_SIZES:
        raise OcmPlacementError(f"pages have {page_bytes} bytes, expected one of {', '.join(map(str, PAGE_SIZES))}")
    return OCM_BYTES // page_bytes


def _at(demand: OcmDemand, first: int, page: int) -> OcmPlacement:
    return OcmPlacement(first, demand.tiles, page, demand.weight_pages, demand.scratch_pages)


def _gaps(first: int, demand: OcmDemand, loaded: Sequence[OcmPlacement], pages: int) -> list[tuple[int, int]]:
    """First pages and sizes of what is free for weights on a group of tiles; nothing if the scratch has no place."""
    there = [each for each in loaded if each.first_tile < first + demand.tiles and first < each.first_tile + each.tiles]
    top = pages - max([demand.scratch_pages, *(each.scratch_pages for each in there)])
    taken = sorted((each.first_page, each.first_page + each.weight_pages) for each in there if each.weight_pages)
    if taken and max(end for _, end in taken) > top:
        return []
    gaps = []
    page = 0
    for begin, end in taken:
        gaps.append((page, begin - page))
        page = max(page, end)
    return [*gaps, (page, top - page)]
