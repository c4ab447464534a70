"""A model that is imported and planned, and that no device has prepared; loading it, at once or later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from nnhal.errors import HalError, NnhalError
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import FrontendError
from nnhal_frontends.imported import FileNode, ImportedModel
from nnhal_frontends.states import StatePair
from nnhal_frontends.weights_pool import Weights
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Options, PlacementError, holding_pins
from nnhal_service.runtime.context.loaded_model import LoadedModel
from nnhal_service.runtime.devices.fleet import Fleet
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys
from nnhal_service.runtime.plan.planning import ModelPlanner, prepare
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

_AS_ONE = "as one"
"""The variant of a cache for a model that is one operation."""
_log = get_logger(__name__)


class ReadModel(Protocol):
    """Imports a model, with dimensions of inputs that the file leaves open; ``as_one`` operation if that can be."""

    def __call__(self, *, shapes: Mapping[str, Dimensions], as_one: bool = False) -> ImportedModel: ...


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Devices to load a model on, and how it is to be split."""

    fleet: Fleet
    devices: Sequence[str]
    """All of the fleet if none are named."""
    options: Options
    cache: CacheDirectory | None = None
    """Where compilations of the model are kept."""
    is_part: bool = False
    """True if it is a part of the user's model: pins that match nothing in it are for other parts."""

    def planner(self, imported: ImportedModel, variant: str = "") -> ModelPlanner:
        """Ask the devices about a model. Raises as ``survey_model`` does."""
        cache = self.cache.of_variant(variant) if self.cache and variant else self.cache
        options = self.options
        if self.is_part and options.pins:
            names = imported.operation_nodes
            pins = tuple(pin for pin in options.pins if holding_pins(imported.model, names, [pin]))
            options = replace(options, pins=pins)
        return ModelPlanner(imported, self.fleet, self.devices, options, cache)


PreparedFor = Callable[[LoadTarget, Mapping[str, Dimensions]], PreparedPlan | None]
"""Prepares a model for certain dimensions of its inputs; None if it cannot."""


class PlannedModel:
    """A model with its plan. Safe to use from several threads."""

    def __init__(
        self,
        target: LoadTarget,
        planner: ModelPlanner,
        read: ReadModel | None = None,
        shapes: Mapping[str, Dimensions] | None = None,
        is_one: bool = False,
        prepared_for: PreparedFor = lambda *_: None,
    ) -> None:
        """``read`` imports it again: for certain dimensions, in addition to ``shapes``, or as one operation unless it
        ``is_one`` already. Without, it is loaded as it is or not at all. ``prepared_for`` prepares it for certain
        dimensions in another way than importing it, if it can.

        Raises PlacementError if there is no plan.
        """
        self.sketch = planner.sketch()
        self._target, self._planner, self._shapes, self._is_one = target, planner, dict(shapes or {}), is_one
        self._read, self._otherwise_prepared_for = read, prepared_for
        imported = self.sketch.imported
        self._is_open = any(0 in tensor.shape or not tensor.shape for tensor in imported.inputs)
        self._may_be_one = bool(imported.model.extension_name_to_prefix) and not is_one

    def load(self, deadline_ns: int = NO_DEADLINE) -> LoadedModel:
        """Prepare it until an instant of CLOCK_BOOTTIME; the model is neither imported nor planned again.

        Raises HalError, PlacementError, FrontendError, or TransportError if a device is gone.
        """
        try:
            return self.prepared(deadline_ns)
        except (HalError, PlacementError):
            if self._read is None or not self._may_be_one:
                raise
            with suppress(HalError, PlacementError):
                return _planned_as_one(self._read, self._target, self._shapes).prepared(deadline_ns)
            raise

    def prepared(self, deadline_ns: int) -> LoadedModel:
        """As ``load``, but never as one operation if the model cannot be prepared as it is planned."""
        planner = self._planner.again(deadline_ns)
        if self._read is None:
            return LoadedModel(planner.prepare())
        given = self._load_given if self.sketch.imported.optional_inputs else None
        if not self._is_open:
            return LoadedModel(planner.prepare(), given=given)
        is_numbered = self._is_one or _pins_by_number(self._target.options)
        return LoadedModel(
            planner.prepare(),
            dimensioned=None if is_numbered else self._prepared_for,
            outputs_for=self._outputs_for,
            given=given,
        )

    def _load_given(self, inputs: Mapping[str, Dimensions]) -> LoadedModel:
        """Load the model with optional inputs as inputs."""
        assert self._read is not None
        target = self._target
        options = replace(target.options, deadline_ns=NO_DEADLINE)  # a deadline was for loading
        cache = target.cache and target.cache.of_variant(f"given {sorted(inputs.items())}")
        target = replace(target, options=options, cache=cache)
        return plan_model(self._read, target, {**self._shapes, **inputs}).load()

    def _again(self, dimensions: Mapping[str, Dimensions]) -> ImportedModel:
        assert self._read is not None
        return self._read(shapes={**self._shapes, **dimensions})

    def _prepared_for(self, dimensions: Mapping[str, Dimensions]) -> PreparedPlan:
        target = self._target
        variant = target.cache and target.cache.of_variant(str(sorted(dimensions.items())))
        kind = self.sketch.client_memory.kind  # in which clients have laid out their memory
        later = replace(target.options, deadline_ns=NO_DEADLINE, memory_kind=kind)  # a deadline was for loading
        otherwise = replace(target, options=later, cache=variant)
        plan = self._otherwise_prepared_for(otherwise, {**self._shapes, **dimensions})
        return plan or prepare(self._again(dimensions), target.fleet, target.devices, later, variant)

    def _outputs_for(self, dimensions: Mapping[str, Dimensions]) -> Mapping[str, Dimensions]:
        try:
            imported = self._again(dimensions)
        except (FrontendError, NnhalError):
            return {}
        operands = imported.model.main.operands
        return {tensor.name: operands[tensor.operand].dimensions for tensor in imported.outputs}


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """Nodes of a file, by their indexes in its main graph, that are planned as one model."""

    nodes: Sequence[int]
    model: PlannedModel
    members: Sequence[int] = ()
    """The nodes that the model is made of, if others compute constants for these."""

    @property
    def steps(self) -> Iterator[tuple[str, list[int]]]:
        """The device of each step, and the nodes that its operations stand for, ascending."""
        members = self.members or self.nodes
        plan, places = self.model.sketch.plan, self.model.sketch.imported.operation_places
        for step in plan.steps:
            operations = () if plan.subgraph_of(step) or not places else step.operations
            yield step.device, sorted({members[place] for number in operations for place in places[number]})


@dataclass(frozen=True, slots=True)
class UntakenNode:
    """A node in no group, and why."""

    index: int
    node: FileNode
    reason: str
    refusals: Mapping[str, str]
    """What devices say."""


def plan_model(
    read: ReadModel,
    target: LoadTarget,
    shapes: Mapping[str, Dimensions] | None = None,
    surveyed: Callable[[LayoutSurveys], object] = lambda _: None,
) -> PlannedModel:
    """Import a model and plan it. ``shapes`` fixes dimensions of inputs that the file leaves open.

    ``surveyed`` is called with what devices answer about its operations, before they are planned. Raises FrontendError,
    PlacementError, HalError, and LookupError for a device that the fleet does not know.
    """
    shapes = shapes or {}
    imported = read(shapes=shapes)
    for warning in imported.warnings:
        warn_of(warning)
    try:
        planner = target.planner(imported)
        surveyed(planner.surveys)
        return PlannedModel(target, planner, read, shapes)
    except (HalError, PlacementError):
        if not imported.model.extension_name_to_prefix:
            raise
        with suppress(HalError, PlacementError):
            return _planned_as_one(read, target, shapes)
        raise


def warn_of(contradiction: str) -> None:
    """Log that a file contradicts itself."""
    _log.warning("a model file contradicts itself", reason=contradiction)


def _planned_as_one(read: ReadModel, target: LoadTarget, shapes: Mapping[str, Dimensions]) -> PlannedModel:
    """Plan a model with operations of the extension as one of them, which may run even if its parts cannot."""
    whole = read(shapes=shapes, as_one=True)
    return PlannedModel(target, target.planner(whole, _AS_ONE), read, shapes, is_one=True)


def cache_of(
    cache: CacheDirectory,
    content: ModelContent,
    shapes: Mapping[str, Dimensions] | None,
    states: Sequence[StatePair],
    signature: str | None,
    weights: Weights,
) -> CacheDirectory:
    cache = cache.of_content(content)
    for pool in weights.values():
        cache = cache.of_content(pool.values.data)
    if shapes:
        cache = cache.of_variant(str(sorted(shapes.items())))
    if states:
        cache = cache.of_variant(str([(pair.input, pair.output, pair.growing) for pair in states]))
    return cache if signature is None else cache.of_variant(f"signature {signature}")


def _pins_by_number(options: Options) -> bool:
    """Return whether a pin names an operation by a number, which may be another operation's in a dimensioned plan."""
    return any(pin.match.startswith("index:") for pin in options.pins)
