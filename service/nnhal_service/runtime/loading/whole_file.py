"""A file that one device is given as a whole, which no device was asked about.

If a device takes files and all others are references, no answer of theirs could make another plan: see ``takes_files``
and ``is_reference`` of Describe. A file in ONNX is one operation; what it is in operations of the HAL is found out when
somebody looks, or when the plan has to be another one. A file in TFLite is imported, since the device has no other
words for it. Neither is read if the device has kept its compilation, and the framework its outline.

A device prepares a file in ONNX while that is checked. Only the check tells what the outputs are: if they are not what
the file declares, it is prepared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from nnhal.errors import NnhalError, general_failure
from nnhal.extensions import onnx
from nnhal.remote import DeviceDescription
from nnhal.types import NO_DEADLINE, Model
from nnhal.types.layout import Dimensions
from nnhal_frontends import ImportLimits, UncheckedFile
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedModel
from nnhal_frontends.weights_pool import Weights
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError, Step, Strategy
from nnhal_service.runtime.context.loaded_model import LoadedModel
from nnhal_service.runtime.loading.deferred import DeferredPlanner
from nnhal_service.runtime.loading.outlines import ModelOutline, OutlinePlace
from nnhal_service.runtime.loading.planned_model import LoadTarget, PlannedModel, ReadModel, warn_of
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys
from nnhal_service.runtime.plan.planning import ModelPlanner
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import SketchedPlan
from nnhal_service.runtime.plan.survey import described, survey_unasked

T = TypeVar("T")
_Check = Callable[[], ImportedModel | None]
_VARIANT = "whole file"
"""The variant of a cache for such models."""
_log = get_logger(__name__)


class WholeFilePlanner(DeferredPlanner):
    """Plans a file on the device that takes it."""

    def __init__(
        self,
        imported: ImportedModel,
        target: LoadTarget,
        surveys: LayoutSurveys,
        in_operations: Callable[[], ModelPlanner],
        known: SketchedPlan | None = None,
        complete: Callable[[], Model] | None = None,
        checked: _Check | None = None,
        keep: Callable[[SketchedPlan], None] | None = None,
        weights: Weights = MappingProxyType({}),
    ) -> None:
        """``complete`` makes the model for the device, if ``imported`` is its outline only, of which the plan is
        ``known``. ``checked`` says what a file is of which ``imported`` is what it declares. ``keep`` is given the plan
        when the device has prepared the file and kept its compilation. ``weights`` are files that the device reads when
        it prepares it.
        """
        super().__init__(imported, target, surveys, in_operations, known)
        self._complete, self._keep = complete, keep
        self._imported, self._checked, self._weights = imported, checked, weights

    @property
    def warnings(self) -> Sequence[str]:
        """Return where the file contradicts itself; complete when it has been prepared."""
        return self._imported.warnings

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        plan = super().prepare(without)
        if plan.planner is not self:
            return plan
        try:
            self._check()  # nothing was to be done while the device looked for its compilation
        except NnhalError:
            plan.release()
            raise
        if self._keep is not None and self._cache is not None and self.has_kept(plan, self._cache):
            self._keep(plan)
        return plan

    def _given(self, sketch: SketchedPlan, step: Step) -> Model:
        return super()._given(sketch, step) if self._complete is None else self._complete()

    def _is_unasked(self, device: str) -> bool:
        return [device] == [step.device for step in self.sketch().plan.steps]

    def _check(self) -> None:
        """Raises OtherwiseDeclaredError, and FrontendError if the file cannot be imported."""
        if self._checked is not None:
            found, self._checked = self._checked(), None
            if found is None or found.model is not self._imported.model:
                raise OtherwiseDeclaredError(found)
            self._imported = found

    def _check_prepared(self) -> None:
        """Raises GENERAL_FAILURE if a file may have been another one when the device read it than when it was given."""
        try:
            for pool in self._weights.values():
                pool.require_unchanged()
        except FrontendError as error:
            general_failure(str(error))


class OtherwiseDeclaredError(NnhalError):
    """A file does not have the outputs that it declares."""

    def __init__(self, imported: ImportedModel | None) -> None:
        """``imported`` is the file as it is, if it can be given to a device so."""
        super().__init__("the outputs of the file are not as it declares them")
        self.imported = imported


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file that is to be given to a device as a whole."""

    content: ModelContent
    read: ReadModel
    """Imports it in operations."""
    target: LoadTarget
    limits: ImportLimits
    accepts: Callable[[ImportedModel], bool] = lambda _: True
    """True if the user may be given it so."""
    is_onnx: bool = True
    """True if it is ONNX, else TFLite."""
    weights: Weights = field(default_factory=dict)
    """The other files in which it has values."""

    def load(self, shapes: Mapping[str, Dimensions]) -> LoadedModel | None:
        """Load it with dimensions of inputs that it leaves open.

        None if devices are to be asked about its operations: one device must be the obvious one, and take the file.
        """

        def prepared(planner: WholeFilePlanner) -> LoadedModel:
            planned = PlannedModel(self.target, planner, self.read, shapes, prepared_for=self._prepared_for)
            loaded = planned.prepared(self.target.options.deadline_ns)
            for warning in planner.warnings:
                warn_of(warning)
            return loaded

        return self._if_taken(lambda: self._with_planner(self.target, shapes, prepared))

    def _prepared_for(self, target: LoadTarget, shapes: Mapping[str, Dimensions]) -> PreparedPlan | None:
        return self._if_taken(lambda: self._with_planner(target, shapes, WholeFilePlanner.prepare))

    def _with_planner(
        self, target: LoadTarget, shapes: Mapping[str, Dimensions], prepare: Callable[[WholeFilePlanner], T]
    ) -> T | None:
        """Prepare by a planner; None if there is none. Raises FrontendError, HalError and PlacementError."""
        planner = self._planner(target, shapes)
        try:
            return None if planner is None else prepare(planner)
        except OtherwiseDeclaredError as error:
            planner = self._planner(target, shapes, error)
            return None if planner is None else prepare(planner)

    def _planner(
        self, target: LoadTarget, shapes: Mapping[str, Dimensions], otherwise: OtherwiseDeclaredError | None = None
    ) -> WholeFilePlanner | None:
        """``otherwise`` says how the file is, if that is known."""
        options = target.options
        if options.strategy != Strategy.LEAST_TIME or options.pins or options.relaxed:
            return None
        # None is asked whether it answers: of the others nothing is wanted, and the device is told of the file at once.
        members, descriptions = described(target.fleet, target.devices, answering=False)
        device = _taker(descriptions)
        if device is None:
            return None
        later = replace(target, options=replace(options, deadline_ns=NO_DEADLINE))  # a deadline was for loading
        own = replace(target, cache=target.cache and target.cache.of_variant(_VARIANT))
        place = target.cache and OutlinePlace(target.cache, self.limits, options, members, descriptions)
        outline = place.kept() if place and not otherwise else None
        checked: _Check | None = None
        if outline is not None:
            if not outline.is_whole:  # it could not be given to the device so
                return None
            imported: ImportedModel | None = outline.imported
        elif otherwise is not None:
            imported = otherwise.imported
        else:
            imported, checked = self._imported(shapes)
        if imported is None or not self.accepts(imported):
            return None
        surveys = LayoutSurveys(survey_unasked(imported, members, descriptions, [device]), None)
        planner = WholeFilePlanner(
            imported,
            own,
            surveys,
            lambda: later.planner(self.read(shapes=shapes)),
            None if outline is None else outline.sketch(surveys, options),
            None if outline is None else lambda: self._complete(shapes),
            checked,
            partial(_keep, place) if place and outline is None else None,
            self.weights,
        )
        return planner if [step.device for step in planner.sketch().plan.steps] == [device] else None

    def _imported(self, shapes: Mapping[str, Dimensions]) -> tuple[ImportedModel | None, _Check | None]:
        """The file as the device gets it; None if it is not that simple. Raises FrontendError.

        With a check, it is what the file declares of itself.
        """
        if self.is_onnx:
            file = UncheckedFile.read(self.content, shapes, self.limits, self.weights)
            if file is None or file.as_declared is None:
                return (None if file is None else file.checked()), None
            return file.as_declared, file.checked
        imported = self.read(shapes=shapes)
        model = imported.model
        plain = not (imported.states or model.referenced or model.extension_name_to_prefix)
        return (imported if plain else None), None

    def _complete(self, shapes: Mapping[str, Dimensions]) -> Model:
        """The model of a file of which there is an outline. Raises GENERAL_FAILURE if there is none by now."""
        try:
            imported, checked = self._imported(shapes)
            imported = imported if checked is None else checked()
        except FrontendError as error:
            general_failure(f"the file cannot be imported, which could be before: {error}")
        if imported is None:
            general_failure("the file cannot be given to a device as it is, which could be before")
        return imported.model

    def _if_taken(self, make: Callable[[], T | None]) -> T | None:
        """Return it; None if the file is refused: asking about its operations says why, or finds another way."""
        try:
            return make()
        except (FrontendError, NnhalError, PlacementError) as error:
            _log.info("a file is not taken as it is", reason=str(error))
            return None


def _keep(place: OutlinePlace, plan: SketchedPlan) -> None:
    outline = ModelOutline.of(plan)
    if outline is not None:
        place.keep(replace(outline, is_whole=True))


def _taker(descriptions: Mapping[str, DeviceDescription | None]) -> str | None:
    """The device that takes files, if all others are references."""
    takers = [name for name, known in descriptions.items() if known is None or not known.is_reference]
    known = descriptions[takers[0]] if len(takers) == 1 else None
    return takers[0] if known is not None and known.takes_files and known.source_extension == onnx.NAME else None
