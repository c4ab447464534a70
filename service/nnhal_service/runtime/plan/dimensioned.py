"""Plans of a model for certain dimensions of its inputs, which devices can compile better than open dimensions."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial

from nnhal.errors import HalError, NnhalError
from nnhal.threads import BriefThread
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_frontends.errors import FrontendError
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import PlacementError
from nnhal_service.runtime.plan.active_plan import ActivePlan
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.substitutes import NO_SUBSTITUTES, Substitutes

MOST_PLANS = 8
"""Plans of one model that are kept; the one that was used longest ago is released for another."""
_MOST_REFUSED = 64
"""Dimensions that are remembered since no plan can be made for them."""
_RETRY_SECONDS = 1.0
"""Time after which a plan that failed for want of a device, a descriptor or memory is made again."""
_OF_THE_MODEL = (ErrorStatus.INVALID_ARGUMENT, ErrorStatus.GENERAL_FAILURE)
"""What a device says of a model that it will never take."""
_log = get_logger(__name__)

InputDimensions = tuple[Dimensions, ...]
"""The dimensions of all inputs, in the model's order."""


class DimensionedPlan:
    """A plan for certain dimensions. It is released when nothing holds it and it is no longer kept."""

    def __init__(self, dimensions: InputDimensions, plans: ActivePlan) -> None:
        self.dimensions = dimensions
        self.plans = plans
        self.users = 0
        """Contexts that are bound to it."""
        self.is_kept = True


class DimensionedPlans:
    """The plans of one model for certain dimensions. Safe to use from several threads.

    No lock is held during a preparation; two at a time for the same dimensions are one. None is prepared as long as a
    device is gone, or drains: the plan would do without it for ever.
    """

    def __init__(
        self,
        declared: PreparedPlan,
        make: Callable[[Mapping[str, Dimensions]], PreparedPlan],
        followed: Callable[[ActivePlan], None],
        most: int = MOST_PLANS,
    ) -> None:
        """``declared`` is the plan for open dimensions. ``make`` prepares it for dimensions of its inputs, by
        name. ``followed`` is called, in a thread of its own, when another plan has taken the place of one of these.
        """
        self._declared = declared
        self._make = make
        self._followed = followed
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[InputDimensions, DimensionedPlan] = OrderedDict()
        self._held: set[DimensionedPlan] = set()
        self._refused: OrderedDict[InputDimensions, float] = OrderedDict()  # until when, of time.monotonic()
        self._preparing: dict[InputDimensions, threading.Event] = {}
        self._closed = False
        self._substitutes = NO_SUBSTITUTES

    def insure(self, substitutes: Substitutes) -> None:
        """Have substitutes prepared for all plans."""
        self._substitutes = substitutes
        for plan in self.all:
            plan.plans.insure(substitutes)

    @property
    def all(self) -> list[DimensionedPlan]:
        """Return those that are kept or held."""
        with self._lock:
            return list({*self._kept.values(), *self._held})

    @property
    def is_put_off(self) -> bool:
        """Return whether plans are not prepared now, but will be when all devices are there."""
        return not self._declared.planner.is_complete

    def has(self, dimensions: InputDimensions) -> bool:
        return dimensions in self._kept

    def hold(self, dimensions: InputDimensions) -> DimensionedPlan | None:
        """Hold the plan for these dimensions until ``drop``; it is prepared if there is none.

        Returns None if no plan can be made for them, preparations are put off, or the model is unloaded.
        """
        while True:
            with self._lock:
                if self._closed or self._is_refused(dimensions):
                    return None
                found = self._kept.get(dimensions)
                if found is not None:
                    self._kept.move_to_end(dimensions)
                    found.users += 1
                    self._held.add(found)
                    return found
                awaited = self._preparing.get(dimensions)
                if awaited is None and self.is_put_off:
                    return None
                if awaited is None:
                    self._preparing[dimensions] = threading.Event()
            if awaited is None:
                self._prepare(dimensions)
            else:
                awaited.wait()

    def want(self, dimensions: InputDimensions) -> None:
        """Prepare a plan for these dimensions in a thread of its own.

        Nothing is done if there is one, one is being prepared, or preparations are put off.
        """
        with self._lock:
            if self._closed or self._preparing or dimensions in self._kept:
                return  # one preparation at a time leaves processors for others
            if self.is_put_off or self._is_refused(dimensions):
                return
            self._preparing[dimensions] = threading.Event()
        prepare = partial(copy_context().run, self._prepare, dimensions)
        if not BriefThread(prepare, "prepare-dimensions").started():
            with self._lock:
                self._preparing.pop(dimensions).set()

    def drop(self, plan: DimensionedPlan) -> None:
        with self._lock:
            plan.users -= 1
            if plan.users or plan.is_kept:
                return
            self._held.discard(plan)
        plan.plans.close()

    def close(self) -> None:
        """Release all plans that nothing holds; the others when they are dropped."""
        with self._lock:
            self._closed = True
            kept = list(self._kept.values())
            self._kept.clear()
            unused = self._leave(kept)
        for plan in unused:
            plan.plans.close()

    def _prepare(self, dimensions: InputDimensions) -> None:
        """Prepare a plan; the caller has entered it among those that are being prepared."""
        began = time.perf_counter()
        unused: list[DimensionedPlan] = []
        prepared: PreparedPlan | None = None
        try:
            opened = self._opened(dimensions)
            prepared = self._make(opened)
            _require_alike(self._declared, prepared)
            plans = ActivePlan(prepared, lambda: self._followed(plans))
            plans.insure(self._substitutes)
            unused = self._keep(DimensionedPlan(dimensions, plans))
            _log.info(
                "a plan for certain dimensions is prepared",
                inputs={name: list(given) for name, given in opened.items()},
                steps=len(prepared.parts),
                seconds=round(time.perf_counter() - began, 3),
                constant_bytes=prepared.constant_bytes,
            )
        except (NnhalError, FrontendError, PlacementError, OSError) as error:
            if prepared is not None:
                prepared.release()
            _log.info("no plan for certain dimensions", inputs=list(map(list, dimensions)), reason=str(error))
            with self._lock:
                self._refused[dimensions] = _refused_until(error)
                if len(self._refused) > _MOST_REFUSED:
                    self._refused.popitem(last=False)
        finally:
            with self._lock:
                self._preparing.pop(dimensions).set()
            for plan in unused:
                plan.plans.close()

    def _is_refused(self, dimensions: InputDimensions) -> bool:
        return time.monotonic() < self._refused.get(dimensions, 0.0)

    def _opened(self, dimensions: InputDimensions) -> dict[str, Dimensions]:
        """The dimensions of those inputs that the model leaves open, by name."""
        imported = self._declared.imported
        operands = imported.model.main.operands
        pairs = zip(imported.inputs, dimensions, strict=True)
        return {tensor.name: given for tensor, given in pairs if 0 in operands[tensor.operand].dimensions}

    def _keep(self, plan: DimensionedPlan) -> list[DimensionedPlan]:
        """Keep a plan, and return those that are to be released for it."""
        with self._lock:
            if self._closed:
                plan.is_kept = False
                return [plan]
            self._kept[plan.dimensions] = plan
            oldest = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._most)]
            return self._leave(oldest)

    def _leave(self, plans: Sequence[DimensionedPlan]) -> list[DimensionedPlan]:
        """Keep plans no longer, and return those that nothing holds; the lock is held."""
        for plan in plans:
            plan.is_kept = False
        unused = [plan for plan in plans if not plan.users]
        self._held.difference_update(unused)
        return unused


def _refused_until(error: Exception) -> float:
    """The time, as ``time.monotonic`` has it, before which a plan that failed is not tried again."""
    is_of_the_model = isinstance(error, (FrontendError, PlacementError)) or (
        isinstance(error, HalError) and error.status in _OF_THE_MODEL
    )
    return math.inf if is_of_the_model else time.monotonic() + _RETRY_SECONDS


def _require_alike(declared: PreparedPlan, dimensioned: PreparedPlan) -> None:
    """Raise HalError unless memory for the inputs and outputs of one plan serves the other as well."""
    if _forms(declared) != _forms(dimensioned):
        raise HalError(ErrorStatus.GENERAL_FAILURE, "inputs or outputs have other types for these dimensions")


def _forms(plan: PreparedPlan) -> list[tuple[object, ...]]:
    operands, tensors = plan.imported.model.main.operands, (*plan.imported.inputs, *plan.imported.outputs)
    return [
        (t.name, plan.type_of(t.operand), operand.scale, operand.zero_point, operand.extra_params, t.element_type)
        for t in tensors
        for operand in [operands[t.operand]]
    ]
