"""Model to which instances are bound: a model that this process has loaded, or one that another process lets it use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from nnhal.extensions.execution import priority_hints
from nnhal.shares import acting_for, tenant
from nnhal.types import NO_DEADLINE, NO_HINTS, MappableFile, Memory, Priority
from nnhal.types.layout import Dimensions
from nnhal_service.fallback.edges import UNSEALED_FILE
from nnhal_service.runtime import CarriedState, ExecutionContext, LoadedModel, PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.context.execution_context import DRAIN_SECONDS
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.requests.planned_run import PlannedRun

OUTPUT = "output "
"""Tells outputs from inputs: an output may have the name of an input."""


class AwaitedAnswer(Protocol):
    """Destination of a run's answer: one object for all runs of a bound model until it is bound to devices anew."""

    def fileno(self) -> int:
        """A descriptor that can be read when the answer has come."""


class InstanceRun(Protocol):
    """A run that a device has begun; see ``runtime.context.run_retries.StartedRun``."""

    @property
    def exchange(self) -> AwaitedAnswer:
        """Return where the answer comes."""

    def finish(self) -> RunReport | None:
        """The report of the run; None if it failed, and ``recover`` or ``drop`` is to be called."""

    def recover(self) -> RunReport:
        """Run it by other means after the failure, which may take long. Raises as ``BoundModel.run``."""

    def drop(self) -> None:
        """Accept the failure: nothing is tried again."""


class BoundModel(Protocol):
    """A model that is bound to the memory of an instance. It runs once at a time."""

    @property
    def planned(self) -> PlannedRun:
        """Return what its last run did by the plan, or its next one before the first."""

    def run(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> RunReport:
        """Run it. Raises as ExecutionContext."""

    def start(self, deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> InstanceRun | None:
        """Start a run and return at once, if that can be; else None. Raises as ExecutionContext."""

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Release it when its run has ended; wait for that so many seconds at most."""


class BindableModel(Protocol):
    """A model that instances bind to their memory."""

    @property
    def memory_kind(self) -> str:
        """The kind of memory that the most devices import."""

    @property
    def alignment(self) -> int:
        """The alignment of inputs and outputs in that memory, in bytes."""

    @property
    def priority(self) -> Priority:
        """The priority that it was prepared with."""

    @property
    def plan(self) -> PreparedPlan | None:
        """The plan that it was loaded with; None if another process has it."""

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> BoundModel:
        """Bind it. If ``measure``, runs report what their steps took. ``priority`` is None for the model's own.

        Raises HalError if a device refuses, TransportError if a device is gone.
        """


class BoundLoadedModel:
    """The BoundModel of a model that this process has loaded."""

    def __init__(
        self,
        loaded: LoadedModel,
        context: ExecutionContext,
        kinds: Mapping[str, str],
        sizes: Mapping[str, int],
        lengths: Mapping[str, Dimensions],
    ) -> None:
        """``kinds`` and ``sizes`` are those of the memory of inputs, by name, and of outputs, by OUTPUT and name.

        ``lengths`` are the dimensions of empty inputs, in each run.
        """
        self.context = context
        self.lengths = lengths
        self.run: Callable[..., RunReport] = partial(context.run, lengths=lengths) if lengths else context.run
        self.start: Callable[..., InstanceRun | None] = _no_start if lengths else context.start
        self._loaded = loaded
        self._kinds, self._sizes = kinds, sizes
        self._prepared = context.prepared
        self._planned = self._planned_by(self._prepared)

    @property
    def planned(self) -> PlannedRun:
        prepared = self.context.followed.bound.prepared
        if prepared is not self._prepared:
            self._prepared = prepared
            self._planned = self._planned_by(prepared)
        return self._planned

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        self._loaded.unbind(self.context, drain_seconds)

    def _planned_by(self, prepared: PreparedPlan) -> PlannedRun:
        """Operands have other numbers in a plan for certain dimensions."""
        imported = prepared.imported
        names = {
            **{tensor.name: tensor.operand for tensor in imported.inputs},
            **{OUTPUT + tensor.name: tensor.operand for tensor in imported.outputs},
        }
        return PlannedRun.of(
            prepared,
            {names[name]: kind for name, kind in self._kinds.items()},
            {names[name]: size for name, size in self._sizes.items()},
        )


class BindableLoadedModel:
    """The BindableModel of a model that this process has loaded."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        """The model on its devices."""
        self._client = tenant()
        self.memory_kind, self.alignment = loaded.original.client_memory
        self.priority = loaded.original.priority
        self.plan: PreparedPlan | None = loaded.original

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
        state: CarriedState | None = None,
    ) -> BoundLoadedModel:
        hints = NO_HINTS if priority is None else priority_hints(priority)
        lengths = {binding.name: binding.dimensions for binding in inputs if 0 in binding.dimensions}
        if lengths:  # for the HAL a 0 is unknown: each run gives the lengths then
            inputs = [replace(b, dimensions=without_empty_axes(b.dimensions)) for b in inputs]
        with acting_for(self._client):  # instances are the model's, whoever's request is the first to need one
            context = self.loaded.bind(
                inputs, outputs, pools, measure, hints=hints, prepares=False, state=state, varies=bool(lengths)
            )
        places = {
            **{binding.name: binding.location for binding in inputs},
            **{OUTPUT + binding.name: binding.location for binding in outputs},
        }
        kinds = [UNSEALED_FILE if isinstance(pool, MappableFile) else self.memory_kind for pool in pools]
        return BoundLoadedModel(
            self.loaded,
            context,
            {name: kinds[place.pool_index] for name, place in places.items()},
            {name: place.length for name, place in places.items()},
            lengths,
        )

    def with_given(self, names: Collection[str]) -> BindableLoadedModel:
        """As LoadedModel has it, for the same client."""
        with acting_for(self._client):
            return BindableLoadedModel(self.loaded.with_given(names))

    def new_state(self) -> CarriedState:
        """A state for what is to be bound; see ``LoadedModel.new_state``."""
        with acting_for(self._client):
            return self.loaded.new_state()


def without_empty_axes(dimensions: Dimensions) -> Dimensions:
    """Dimensions with 1 in the place of 0, as they are bound for runs of other lengths."""
    return tuple([max(1, length) for length in dimensions])


def _no_start(deadline_ns: int = NO_DEADLINE, cancellation: Cancellation | None = None) -> None:
    """Start no run: each has lengths of its own."""
