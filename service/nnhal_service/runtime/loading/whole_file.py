"""A file that one device is given as it is: as one operation, which no device was asked about.

If a device takes files and all others are references, no answer of theirs could make another plan: see ``takes_files``
and ``is_reference`` of Describe. What the file is in operations of the HAL is found out when somebody looks, or when
the plan has to be another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nnhal.errors import NnhalError, general_failure
from nnhal.extensions import onnx
from nnhal.remote import DeviceDescription
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal_frontends import ImportLimits, import_whole_file
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import ImportedModel
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Pin, PlacementError, Step, Strategy, whole
from nnhal_service.runtime.context.loaded_model import LoadedModel
from nnhal_service.runtime.loading.planned_model import LoadTarget, PlannedModel, ReadModel, warn_of
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys
from nnhal_service.runtime.plan.planning import ModelPlanner, PreparationError
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import SketchedPlan
from nnhal_service.runtime.plan.survey import described, survey_unasked

T = TypeVar("T")
_VARIANT = "whole file"
"""The variant of a cache for such models."""
_log = get_logger(__name__)


class WholeFilePlanner(ModelPlanner):
    """Plans a file on the device that takes it; every other plan is one of its operations."""

    def __init__(
        self,
        imported: ImportedModel,
        target: LoadTarget,
        survey: LayoutSurveys,
        device: str,
        in_operations: Callable[[], ModelPlanner],
    ) -> None:
        """``in_operations`` imports the file for the planner of its operations, and is called once at most."""
        cache = target.cache and target.cache.of_variant(_VARIANT)
        super().__init__(imported, target.fleet, target.devices, target.options, cache, survey)
        self._device, self._import = device, in_operations
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

    def again(self, deadline_ns: int) -> WholeFilePlanner:
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
        """The plan of the operations; None if there is none that has them all on the device, as the file is."""
        try:
            sketch = self._operations().sketch()
        except (NnhalError, PlacementError) as error:
            _log.warning("a file that runs cannot be shown in operations", reason=str(error))
            return None
        return sketch if [step.device for step in sketch.plan.steps] == [self._device] else None

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
        if device == self._device:
            return super()._step(sketch, device, number)
        return whole(self._operations().surveys.declared.imported.model, device)

    def _is_unasked(self, device: str) -> bool:
        return device == self._device


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file in ONNX that is to be given to a device as it is."""

    content: ModelContent
    read: ReadModel
    """Imports it in operations."""
    target: LoadTarget
    limits: ImportLimits
    accepts: Callable[[ImportedModel], bool] = lambda _: True
    """Whether the user may be given it so."""

    def load(self, shapes: Mapping[str, Dimensions]) -> LoadedModel | None:
        """Load it with dimensions of inputs that it leaves open.

        None if it is to be imported in operations: one device must be the obvious one, and take the file.
        """
        return self._if_taken(lambda: self._loaded(shapes))

    def _loaded(self, shapes: Mapping[str, Dimensions]) -> LoadedModel | None:
        planner = self._planner(self.target, shapes)
        if planner is None:
            return None
        for warning in planner.surveys.declared.imported.warnings:
            warn_of(warning)
        planned = PlannedModel(self.target, planner, self.read, shapes, prepared_for=self._prepared_for)
        return planned.prepared(self.target.options.deadline_ns)

    def _prepared_for(self, target: LoadTarget, shapes: Mapping[str, Dimensions]) -> PreparedPlan | None:
        def prepared() -> PreparedPlan | None:
            planner = self._planner(target, shapes)
            return None if planner is None else planner.prepare()

        return self._if_taken(prepared)

    def _planner(self, target: LoadTarget, shapes: Mapping[str, Dimensions]) -> WholeFilePlanner | None:
        options = target.options
        if options.strategy != Strategy.LEAST_TIME or options.pins or options.relaxed:
            return None
        members, descriptions = described(target.fleet, target.devices)
        device = _taker(descriptions)
        imported = None if device is None else import_whole_file(self.content, shapes, self.limits)
        if device is None or imported is None or not self.accepts(imported):
            return None
        later = replace(target, options=replace(options, deadline_ns=NO_DEADLINE))  # a deadline was for loading
        survey = LayoutSurveys(survey_unasked(imported, members, descriptions, device), None)
        return WholeFilePlanner(imported, target, survey, device, lambda: later.planner(self.read(shapes=shapes)))

    def _if_taken(self, make: Callable[[], T | None]) -> T | None:
        """What is made; None if the file is refused: importing it in operations says why, or finds another way."""
        try:
            return make()
        except (FrontendError, NnhalError, PlacementError) as error:
            _log.info("a file is not taken as it is", reason=str(error))
            return None


def _taker(descriptions: Mapping[str, DeviceDescription | None]) -> str | None:
    """The device that takes files, if all others are references."""
    takers = [name for name, known in descriptions.items() if known is None or not known.is_reference]
    known = descriptions[takers[0]] if len(takers) == 1 else None
    return takers[0] if known is not None and known.takes_files and known.source_extension == onnx.NAME else None
