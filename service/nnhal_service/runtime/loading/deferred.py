"""Models that are loaded without their operations: these are imported when somebody asks for them, or for another plan.

Such a model is a file that a device is given as it is, or one of which there is an outline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from nnhal.errors import NnhalError, general_failure
from nnhal.types import NO_DEADLINE, Model
from nnhal.types.layout import Dimensions
from nnhal_frontends import DEFAULT_LIMITS, ImportLimits, ModelFormat, StatePair, import_model
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.weights_pool import Weights
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Options, Pin, PlacementError, Step, Strategy, whole
from nnhal_service.runtime.context.loaded_model import LoadedModel
from nnhal_service.runtime.devices.fleet import Fleet
from nnhal_service.runtime.loading.outlines import ModelOutline, OutlinePlace
from nnhal_service.runtime.loading.planned_model import (
    LoadTarget,
    PlannedModel,
    ReadModel,
    cache_of,
    plan_model,
    warn_of,
)
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys
from nnhal_service.runtime.plan.planning import ModelPlanner, PreparationError
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import SketchedPlan
from nnhal_service.runtime.plan.survey import described

_log = get_logger(__name__)


class DeferredPlanner(ModelPlanner):
    """Plans a model without its operations; every other plan is one of these."""

    def __init__(
        self,
        imported: ImportedModel,
        target: LoadTarget,
        surveys: LayoutSurveys,
        in_operations: Callable[[], ModelPlanner],
        known: SketchedPlan | None = None,
        operations: Sequence[tuple[int, ...]] = (),
    ) -> None:
        """``in_operations`` imports the model for the planner of its operations, and is called once at most.

        ``known`` is the plan, if it is known, and ``operations`` those that each of its steps stands for.
        """
        super().__init__(imported, target.fleet, target.devices, target.options, target.cache, surveys, known=known)
        self._import, self._stand_for = in_operations, operations
        self._lock = threading.Lock()
        self._others: ModelPlanner | None = None
        self._is_outdated = False

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        if without or self._is_outdated:
            return self._operations().prepare(without)
        try:
            return self._attempt(self._options, {}, awaits=True)
        except PreparationError as error:
            raise error.reason from error

    def again(self, deadline_ns: int) -> DeferredPlanner:
        return self

    def ask_again(self) -> bool:
        known = self._others
        self._is_outdated |= self._operations().ask_again() if known is not None else self._in_operations() is None
        return self._is_outdated

    def choose(
        self, pins: Sequence[Pin], devices: Sequence[str] = (), strategy: Strategy | None = None
    ) -> ModelPlanner:
        return self._operations().choose(pins, devices, strategy)

    def in_operations(self, plan: SketchedPlan) -> SketchedPlan:
        return self._in_operations() or plan

    def _in_operations(self) -> SketchedPlan | None:
        """The plan of the operations; None if there is none with the same steps."""
        try:
            sketch = self._operations().sketch()
        except (NnhalError, PlacementError) as error:
            _log.warning("a model that runs cannot be shown in operations", reason=str(error))
            return None
        steps, own = sketch.plan.steps, self.sketch().plan.steps
        is_same = [step.device for step in steps] == [step.device for step in own]
        is_same &= len(own) == 1 or [step.operations for step in steps] == list(self._stand_for)
        return sketch if is_same else None

    def _operations(self) -> ModelPlanner:
        """The planner of the operations. Raises HalError if the file cannot be imported, which a run may meet."""
        with self._lock:
            if self._others is None:
                try:
                    self._others = self._import()
                except (FrontendError, LookupError) as error:
                    general_failure(f"the operations of the file, which runs as it is, cannot be planned: {error}")
            return self._others

    def _step(self, sketch: SketchedPlan, device: str, number: int | None) -> Step:
        own = None if number is None else super()._step(sketch, device, number)
        if own is not None and number is not None and self._stand_for:
            own = replace(own, operations=self._stand_for[number])
        if own is not None and own.device == device:
            return own
        if own is None or len(sketch.plan.steps) == 1:
            return whole(self._operations().surveys.declared.imported.model, device)
        return self._with_operations(own)[1]

    def _with_operations(self, step: Step) -> tuple[SketchedPlan, Step]:
        """A step with its operations, in the plan of these. Raises GENERAL_FAILURE if that has no such step."""
        sketch = self._in_operations()
        if sketch is not None:
            for each in sketch.plan.steps:
                if (each.device, each.operations) == (step.device, step.operations):
                    return sketch, each
        general_failure(f"the operations of a step on {step.device} are not known any more: they are planned otherwise")


class OutlinedPlanner(DeferredPlanner):
    """Plans a model by its outline: what a device has lost of its compilations, it is given anew."""

    def _given(self, sketch: SketchedPlan, step: Step) -> Model:
        full, own = self._with_operations(step)
        return self._operations()._given(full, own if step.source is not None else replace(own, source=None))


@dataclass(frozen=True, slots=True)
class OutlinedLoad:
    """The load of a model of which there may be an outline, and will be one afterwards if all of it is cached."""

    target: LoadTarget
    read: ReadModel
    """Imports it."""
    limits: ImportLimits
    shapes: Mapping[str, Dimensions]

    def load(self) -> LoadedModel:
        """Load it by its outline if there is one, else by importing and planning it. Raises as both do."""
        loaded = self._by_outline()
        if loaded is None:
            loaded = plan_model(self.read, self.target, self.shapes).load(self.target.options.deadline_ns)
            self._keep(loaded.original)
        return loaded

    def _by_outline(self) -> LoadedModel | None:
        """None if there is no outline that can be used. Raises LookupError for an unknown device."""
        target, cache = self.target, self.target.cache
        if cache is None:
            return None
        members, descriptions = described(target.fleet, target.devices, answering=False)
        outline = OutlinePlace(cache, self.limits, target.options, members, descriptions).kept()
        if outline is None or outline.is_whole:
            return None
        later = replace(target, options=replace(target.options, deadline_ns=NO_DEADLINE))  # a deadline was for loading
        try:
            surveys = outline.surveys(members, descriptions)
            planner = OutlinedPlanner(
                outline.imported,
                target,
                surveys,
                lambda: later.planner(self.read(shapes=self.shapes)),
                outline.sketch(surveys, target.options),
                outline.operations,
            )
            loaded = PlannedModel(target, planner, self.read, self.shapes).prepared(target.options.deadline_ns)
        except (FrontendError, NnhalError, PlacementError) as error:
            _log.info("a model is not loaded by its outline", reason=str(error))
            return None
        for warning in outline.imported.warnings:
            warn_of(warning)
        return loaded

    def _keep(self, plan: PreparedPlan) -> None:
        """Keep the outline of a plan if its devices have kept all steps."""
        cache, survey = self.target.cache, plan.survey
        if cache is None or not isinstance(plan.planner, ModelPlanner) or not plan.planner.has_kept(plan, cache):
            return
        outline = ModelOutline.of(plan)
        if outline is not None:
            OutlinePlace(cache, self.limits, self.target.options, survey.members, survey.descriptions).keep(outline)


def load_model(
    content: ModelContent,
    fleet: Fleet,
    devices: Sequence[str],
    options: Options,
    format: ModelFormat | None = None,  # noqa: A002 - the proto's word
    cache: CacheDirectory | None = None,
    limits: ImportLimits = DEFAULT_LIMITS,
    shapes: Mapping[str, Dimensions] | None = None,
    states: Sequence[StatePair] = (),
    tensors_only: bool = False,
    signature: str | None = None,
    weights: Weights = MappingProxyType({}),
) -> LoadedModel:
    """Import a model file within limits, and prepare it on the named devices, or on all if none are named.

    Without ``format`` the content decides. ``shapes`` fixes dimensions of inputs that the file leaves open. If some
    stay open, plans for certain dimensions are made when these are bound. ``states`` are inputs and outputs that
    are the model's state. ``tensors_only`` is that of ``import_model``. ``signature`` is an entry point that the file
    names; ``weights`` are the other files in which it has values. Compilations are cached in ``cache``, in entries that
    depend on the content as well as on the token. Raises FrontendError, PlacementError, HalError, TransportError if a
    device is gone, and LookupError for a device that the fleet does not know.
    """
    read = partial(
        import_model,
        content,
        format,
        limits=limits,
        states=states,
        tensors_only=tensors_only,
        signature=signature,
        weights=weights,
    )
    cache = cache and cache_of(cache, content, shapes, states, signature, weights)
    cache = cache and cache.of_variant("tensors only") if tensors_only else cache
    target = LoadTarget(fleet, devices, options, cache)
    return OutlinedLoad(target, read, limits, shapes or {}).load()
