"""What would let a subgraph fit that does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnhal_mlip.compiler.planning.choosing import choose
from nnhal_mlip.compiler.planning.fitting import PlanMisfit, fit
from nnhal_mlip.compiler.planning.setting import PlanSetting
from nnhal_mlip.program.program import OCM_BYTES, TILE_COUNTS, TensorType
from nnhal_mlip.program.sizes import ceil_divide

_PROPOSAL = 8, 0


def remedies_for(setting: PlanSetting, wanted: int) -> Iterator[str]:
    """Yield what would do, each alone: the fewest pages of each tile, the fewest tiles, int8, weights that are loaded.

    Args:
        setting: What does not fit; with the most tiles that are allowed.
        wanted: About how many bytes of each tile would do.
    """
    pages = _least_pages(setting, wanted)
    if pages is not None:
        yield f"{pages} pages of {setting.page} bytes of each tile"
    for tiles in TILE_COUNTS:
        if tiles > setting.tiles and _fits(replace(setting, tiles=tiles)):
            yield f"{tiles} tiles"
            break
    if setting.type is TensorType.FP16 and _fits(replace(setting, type=TensorType.INT8)):
        yield "int8 in place of fp16"
    if setting.pinned and _fits(replace(setting, pinned=False)):
        yield "weights that are not pinned"


def _least_pages(setting: PlanSetting, wanted: int) -> int | None:
    most = (OCM_BYTES - setting.base) // setting.page
    low, high = setting.capacity // setting.page, most + 1
    guess = ceil_divide(wanted, setting.page)
    while high - low > 1:
        middle = guess if low < guess < high else (low + high) // 2
        guess = 0
        if _fits(replace(setting, capacity=middle * setting.page)):
            high = middle
        else:
            low = middle
    return high if high <= most else None


def _fits(setting: PlanSetting) -> bool:
    return not isinstance(fit(setting, choose(setting, *_PROPOSAL)), PlanMisfit)
