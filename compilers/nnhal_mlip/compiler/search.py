"""The fastest of several programs: of several plans, for each number of tiles that is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.compiler.emission.ddr import DdrMap
from nnhal_mlip.compiler.emission.emit import emit
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.compiler.layers.aliasing import AliasedNetwork
from nnhal_mlip.compiler.planning.choices import PlanChoices
from nnhal_mlip.compiler.planning.choosing import choose
from nnhal_mlip.compiler.planning.fitting import PlanMisfit, fit, hasten
from nnhal_mlip.compiler.planning.plans import TilePlan, make_plan
from nnhal_mlip.compiler.planning.setting import PlanSetting
from nnhal_mlip.program.program import OCM_BYTES, TILE_COUNTS, MlipProgram, TaskKind, TensorType
from nnhal_mlip.program.sizes import ceil_divide
from nnhal_mlip.timing.queues import timeline

_PROPOSALS = ((8, 0), (4, 100_000), (8, 300_000), (8, 1_000_000))
"""Weights shares and thrifts (see ``choose``) of the plans that are tried."""


class TimedProgram(NamedTuple):
    """A program, and how long it takes."""

    plan: TilePlan
    program: MlipProgram
    ddr: DdrMap
    cycles: int


class ProgramSearch(NamedTuple):
    """Result of the search, for one number of tiles or several."""

    best: TimedProgram | None
    misfit: PlanMisfit | None
    """The least of all that does not fit."""


def best_program(aliased: AliasedNetwork, element_type: TensorType, options: MlipCompilerOptions) -> TimedProgram:
    """Return the fastest program of a network.

    What fewer tiles can do is tried as well, so that more are never slower; in int8 the choices that are best in fp16;
    and with pinned weights those that are best without.

    Raises:
        MisfitOfTilesError: it does not fit, or would be slower with pinned weights than without.
    """
    settings = [
        PlanSetting(
            aliased,
            element_type,
            tiles,
            options.ocm_base,
            options.ocm_size,
            options.page_bytes,
            options.wb_pin_ocm,
            options.profile,
        )
        for tiles in TILE_COUNTS
        if tiles <= options.num_tiles
    ]
    found = _search(settings)
    misfit = found.misfit
    if options.wb_pin_ocm:
        without = _search([replace(setting, pinned=False) for setting in settings]).best
        if without is not None and (found.best is None or found.best.cycles > without.cycles):
            found, misfit = ProgramSearch(None, None), _pinned_misfit(without)
    if found.best is not None:
        return found.best
    assert misfit is not None
    place = aliased.network.kernels[aliased.network.layers[misfit.layer].kernel].place
    remedies = tuple(remedies_for(settings[-1], misfit.wanted))
    raise MisfitOfTilesError(misfit.wanted, options.ocm_size, place, remedies)


def _search(settings: Sequence[PlanSetting]) -> ProgramSearch:
    """Try several numbers of tiles, the largest first; fewer only if their array could be as fast."""
    best: TimedProgram | None = None
    misfits = []
    for setting in sorted(settings, key=lambda one: -one.tiles):
        if best is not None and _least_cycles(setting) > best.cycles:
            break
        found = _on_tiles(setting)
        best = _faster(best, found.best)
        if found.misfit is not None:
            misfits.append(found.misfit)
    return ProgramSearch(best, min(misfits, key=lambda one: one.wanted, default=None))


def _on_tiles(setting: PlanSetting) -> ProgramSearch:
    """Try the plans for a number of tiles, and those that are best if more bytes or transfers are needed."""
    best: TimedProgram | None = None
    misfits = []
    for choices in _proposals(setting):
        plan = fit(setting, choices)
        if isinstance(plan, PlanMisfit):
            misfits.append(plan)
        else:
            best = _faster(best, _timed(plan))
            if (hastened := hasten(plan)) is not None:
                best = _faster(best, _timed(hastened))
    slower = []
    if setting.type is TensorType.INT8:
        slower.append(replace(setting, type=TensorType.FP16))
    if setting.pinned:
        slower.append(replace(setting, pinned=False))
    for other in slower:
        if best is not None and _least_cycles(other) >= best.cycles:
            continue
        found = _on_tiles(other).best
        if found is not None:
            same = make_plan(setting, found.plan.choices)
            best = _faster(best, _timed(same)) if same.fits else best
    return ProgramSearch(best, min(misfits, key=lambda one: one.wanted, default=None))


def _proposals(setting: PlanSetting) -> list[PlanChoices]:
    found: list[PlanChoices] = []
    for proposal in _PROPOSALS:
        choices = choose(setting, *proposal)
        if choices not in found:
            found.append(choices)
    return found


def _least_cycles(setting: PlanSetting) -> int:
    """Return the cycles that the arrays of all tiles take at least, or the DMA engine if that is more."""
    rate = setting.tiles * setting.profile.macs(setting.type)
    macs = sum(layer.macs for layer in setting.layers if layer.task is TaskKind.CONVOLUTION)
    loaded = 0
    if not setting.pinned:
        loaded = sum(setting.constants_bytes(layer, layer.extents[3]) for layer in setting.layers)
    return max(macs // rate, loaded // setting.profile.ddr_bytes)


def _timed(plan: TilePlan) -> TimedProgram:
    program, ddr = emit(plan, plan.setting.aliased.scales)
    return TimedProgram(plan, program, ddr, timeline(program, plan.setting.profile).total)


def _faster(one: TimedProgram | None, other: TimedProgram | None) -> TimedProgram | None:
    """Return the faster of two programs; the first of equals."""
    if one is None or other is None:
        return other if one is None else one
    return other if other.cycles < one.cycles else one


def _pinned_misfit(without: TimedProgram) -> PlanMisfit:
    """Return what pinned weights would take beside the scratch of the fastest program without them."""
    setting = replace(without.plan.setting, pinned=True)
    sizes = [setting.constants_bytes(layer, layer.extents[3]) for layer in setting.layers]
    wanted = make_plan(setting, without.plan.choices).wanted
    return PlanMisfit(sizes.index(max(sizes)), wanted)


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
