"""Splits models over devices and prepares their steps; again when devices come and go."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError, without_frames
from nnhal.types import NO_DEADLINE, ErrorStatus, Model
from nnhal_frontends.imported import ImportedModel
from nnhal_hosting.logs import get_logger
from nnhal_service.fallback import FallbackMemoryManager
from nnhal_service.partition import (
    Fallback,
    Options,
    Pin,
    PlacementError,
    Step,
    Strategy,
    holding_pins,
    whole,
)
from nnhal_service.runtime.devices.fleet import Fleet, FleetMember
from nnhal_service.runtime.plan.compilation_cache import CacheDirectory, PrepareConfig, has_entry, prepare_part
from nnhal_service.runtime.plan.layout_choice import LayoutSurveys, survey_layouts
from nnhal_service.runtime.plan.parts import Announcements, Part, Parts, PrepareStep
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import SketchedPlan

_GONE = "it is gone: the model is planned without it until it is back"
_DRAINS = "it drains: the model is planned without it until it is used again"
_networks = itertools.count(1)
_log = get_logger(__name__)


def prepare(
    imported: ImportedModel,
    fleet: Fleet,
    devices: Sequence[str],
    options: Options,
    cache: CacheDirectory | None = None,
) -> PreparedPlan:
    """Split a model over devices and prepare each step; a device that cannot is left out, if fallback is allowed.

    Compilations are cached in ``cache``, if given. Raises PlacementError if an operation has no device, HalError if a
    device refuses, and TransportError if one is gone.
    """
    return ModelPlanner(imported, fleet, devices, options, cache).prepare()


class ModelPlanner:
    """A Planner that asks the devices about the model once, and again when one of them was restarted."""

    def __init__(
        self,
        imported: ImportedModel,
        fleet: Fleet,
        devices: Sequence[str],
        options: Options,
        cache: CacheDirectory | None,
        surveys: LayoutSurveys | None = None,
        unprepared: Mapping[str, str] = MappingProxyType({}),
        known: SketchedPlan | None = None,
    ) -> None:
        """``surveys`` has the devices' answers if they are known already, ``unprepared`` those devices that are known
        to be unable to prepare their part, with reasons, and ``known`` is the sketch that follows from both. Raises as
        ``survey_layouts`` does.
        """
        self._fleet = fleet
        self._devices = tuple(devices)
        self._options = options
        self._cache = cache
        asked = _relaxed(imported) if options.relaxed else imported
        self._surveys = surveys or survey_layouts(asked, fleet, devices)
        self._unprepared = unprepared
        self._known = known
        self._trusts_cache = cache is not None
        """True if devices are taken to prepare again what has entries in the cache."""
        self._trusted: set[str] = set()
        """Those of which this was assumed."""
        self._chosen: tuple[object, LayoutSurveys, ModelPlanner | None] = (), self._surveys, None
        """The last choice, what was known then, and what came of it: who applies a plan has looked at it before."""

    @property
    def surveys(self) -> LayoutSurveys:
        return self._surveys

    @property
    def may_replan(self) -> bool:
        return self._options.fallback != Fallback.DENY

    @property
    def is_complete(self) -> bool:
        return all(map(self._fleet.is_there, self._devices or self._fleet.names))

    def is_there(self, device: str) -> bool:
        return self._fleet.is_there(device)

    def is_withdrawn(self, device: str) -> bool:
        return device in self._fleet.withdrawn

    def prepare(self, without: Collection[str] = ()) -> PreparedPlan:
        """Split the model over all other devices; pins to devices that are left out are dropped."""
        options = self._options
        if without:  # a deadline was for the first preparation
            options = _without_pins(replace(options, deadline_ns=NO_DEADLINE), without)
        reasons = {name: _DRAINS if self.is_withdrawn(name) else _GONE for name in without}
        failed: dict[str, NnhalError] = {}
        while True:
            try:
                plan = self._attempt(options, reasons, awaits=not without)
                if not without and failed.keys() != self._unprepared.keys():
                    self._unprepared, self._known = {name: reasons[name] for name in failed}, None
                # Clients have laid out their memory by the first plan when there are others.
                self._options = replace(self._options, memory_kind=plan.client_memory.kind)
                return plan
            except PlacementError:
                if failed:
                    raise next(iter(failed.values())) from None
                raise
            except PreparationError as error:
                if self._trusts_cache and error.device in self._trusted:  # it may have other options by now
                    self._trusts_cache, self._known = False, None
                    continue
                if not self.may_replan or error.device in reasons or len(self._surveys.members) == 1:
                    raise error.reason from error
                log = _log.warning if options.fallback == Fallback.WARN else _log.info
                log("a device cannot prepare its part; it is left out", device=error.device, reason=str(error.reason))
                failed[error.device] = without_frames(error.reason)
                if without and isinstance(error.reason, TransportError):  # it has died since this was begun
                    options = _without_pins(options, [error.device])
                reasons[error.device] = f"it cannot prepare its part: {error.reason}"

    def ask_again(self) -> bool:
        known = self._surveys
        if not all(map(self._fleet.is_there, known.members)):
            return False
        surveys = survey_layouts(known.declared.imported, self._fleet, tuple(known.members))
        if surveys.members.keys() != known.members.keys() or surveys.says_the_same(known):
            return False
        self._surveys, self._known = surveys, None
        return True

    def in_operations(self, plan: SketchedPlan) -> SketchedPlan:
        return plan

    def sketch(self) -> SketchedPlan:
        if self._known is None:
            self._known = self._sketched(self._options, self._unprepared)
        return self._known

    def _sketched(self, options: Options, left_out: Mapping[str, str]) -> SketchedPlan:
        """Plan without the devices that are ``left_out``. Raises as ``LayoutSurveys.sketched`` does, and
        DEVICE_UNAVAILABLE if a device that may take what the others refuse is not there.
        """
        surveys = self._surveys.trusting(self._has_entry) if self._trusts_cache else self._surveys
        try:
            return surveys.sketched(options, left_out)
        except PlacementError as error:
            away = self._away(options, error)
            if not away:
                raise
            said = ", ".join(f"device {name!r} {self._hindrance(name, ())}" for name in away)
            raise HalError(
                ErrorStatus.DEVICE_UNAVAILABLE, f"{error}; {said}, and may take it when it is back"
            ) from error

    def _away(self, options: Options, error: PlacementError) -> list[str]:
        """The devices that were not there to be asked, and that may take what no device takes, or that a pin names."""
        away = [name for name in self._devices or self._fleet.names if name not in self._surveys.members]
        pinned = {pin.device for pin in options.pins}
        if error.operation is None:
            return [name for name in away if name in pinned]
        task = self._surveys.declared.task
        if error.operation in holding_pins(task.model, task.names, options.pins):
            return []
        return [name for name in away if options.strategy != Strategy.CPU_ONLY or name == options.cpu]

    def _has_entry(self, step: Step, of_several: bool, is_converted: bool) -> bool:
        """Return whether the cache has an entry of a step."""
        member, cache = self._surveys.members[step.device], self._cache_for(is_converted)
        if cache is None or step.scope or not has_entry(member, step, cache, of_several, self._config()):
            return False
        self._trusted.add(step.device)
        return True

    def has_kept(self, plan: SketchedPlan, directory: CacheDirectory) -> bool:
        """Return whether ``directory`` is where compilations are kept, and has an entry of each step of a plan."""
        cache, steps, members = self._cache_for(_is_converted(plan)), plan.plan.steps, self._surveys.members
        if cache is None or directory != self._cache:
            return False
        config, of_several = self._config(), len(steps) > 1
        return all(has_entry(members[step.device], step, cache, of_several, config) for step in steps)

    def _cache_for(self, is_converted: bool) -> CacheDirectory | None:
        return self._cache.of_variant("channels last") if self._cache is not None and is_converted else self._cache

    def _config(self, deadline_ns: int = NO_DEADLINE) -> PrepareConfig:
        options, hints = self._options, self._options.hints
        return PrepareConfig(options.preference, options.priority, deadline_ns, hints.values, hints.extension_names)

    def again(self, deadline_ns: int) -> ModelPlanner:
        """Return a planner of the same model that knows the same, for another plan that a deadline is given for."""
        options = replace(self._options, deadline_ns=deadline_ns)
        imported = self._surveys.declared.imported
        sketch = self.sketch()
        return ModelPlanner(
            imported, self._fleet, self._devices, options, self._cache, self._surveys, self._unprepared, sketch
        )

    def choose(
        self, pins: Sequence[Pin], devices: Sequence[str] = (), strategy: Strategy | None = None
    ) -> ModelPlanner:
        known = self._fleet.names
        wanted = tuple(devices) or tuple(name for name in self._devices if name in known) or self._devices
        members = self._fleet.available(wanted)
        there = {member.name for member in members}
        for pin in pins:
            if pin.device in known and pin.device not in there:
                why = self._hindrance(pin.device, wanted)
                raise PlacementError(f"pin {pin.match!r}: device {pin.device!r} {why}, expected {_listed(there)}")
        surveys, imported = self._surveys, self._surveys.declared.imported
        is_known = there <= surveys.members.keys()
        options = replace(self._options, pins=tuple(pins), deadline_ns=NO_DEADLINE)
        options = options if strategy is None else replace(options, strategy=strategy)
        pinned = {pin.device for pin in pins}
        unprepared = {name: reason for name, reason in self._unprepared.items() if name not in pinned}
        choice = options, wanted, [member.remote for member in members], unprepared
        chosen, known_of, planner = self._chosen
        if planner is None or chosen != choice or known_of is not surveys:
            asked = surveys.of(members) if is_known else survey_layouts(imported, self._fleet, wanted)
            planner = ModelPlanner(imported, self._fleet, wanted, options, self._cache, asked, unprepared)
            self._chosen = choice, surveys, planner
        return planner

    def _hindrance(self, device: str, wanted: Collection[str]) -> str:
        """Return why a device of the fleet cannot be used."""
        if wanted and device not in wanted:
            return "is not to be used"
        return "drains" if self.is_withdrawn(device) else "does not answer"

    def _attempt(self, options: Options, left_out: Mapping[str, str], awaits: bool) -> PreparedPlan:
        """Plan and prepare without the devices that are ``left_out``. Raises PreparationError if another fails.

        A load ``awaits`` the fallback device if that has died: no run waits for it.
        """
        is_known = awaits and left_out.keys() == self._unprepared.keys()
        sketch = (is_known and self._known) or self._sketched(options, left_out)
        described = sketch.survey.descriptions.items()
        ignoring = frozenset(name for name, known in described if known is not None and known.ignores_networks)
        announcements = Announcements(next(_networks), ignoring)
        prepare_step = self._preparing(sketch, announcements, NO_DEADLINE, awaits=False)
        parts = self._prepare_all(sketch, announcements, options.deadline_ns, awaits)
        fallback = options.cpu if self.may_replan and options.cpu in self._surveys.members else ""
        return PreparedPlan(
            sketch.survey,
            sketch.refined,
            sketch.values,
            sketch.layout,
            sketch.choice,
            Parts(parts, prepare_step, fallback),
            FallbackMemoryManager(sketch.layout),
            announcements,
            self,
            options.priority,
        )

    def _preparing(
        self, sketch: SketchedPlan, announcements: Announcements, deadline_ns: int, awaits: bool
    ) -> PrepareStep:
        """A function that prepares the steps of a plan. It ``awaits`` the fallback device if that has died."""
        plan, options, config = sketch.plan, self._options, self._config(deadline_ns)
        cache = self._cache_for(_is_converted(sketch))

        def attempt(member: FleetMember, number: int | None) -> Part:
            step = self._step(sketch, member.name, number)
            given = replace(config, unasked=self._is_unasked(member.name), meanwhile=self._check)
            fatal, models = self._fleet.fatal_models, partial(_models_of, [step])
            fatal.require_harmless(member, models)
            with announcements.loading([member]), fatal.doing(member, "prepared", models):
                of_several = number is not None and len(plan.steps) > 1
                is_own = number is not None and step.device == member.name
                model_for = partial(self._given, sketch) if is_own else _as_it_is
                prepared = prepare_part(member, step, cache, of_several, given, model_for)
            try:
                self._check_prepared()
            except NnhalError:
                prepared.release()
                raise
            return Part(member, prepared)

        def prepare_step(device: str, number: int | None) -> Part:
            if device != options.cpu or not self.may_replan or not awaits:
                return attempt(self._fleet.get(device), number)
            member = self._fleet.awaited(device)
            try:
                return attempt(member, number)
            except DeadObjectError as death:
                try:
                    again = self._fleet.awaited(device, member)
                except NnhalError as error:
                    raise death from error
                return attempt(again, number)

        return prepare_step

    @contextmanager
    def first_run(self, plan: PreparedPlan) -> Iterator[None]:
        with ExitStack() as stack:
            for part, step in zip(plan.parts, plan.plan.steps, strict=True):
                doing = self._fleet.fatal_models.doing(part.member, "ran", partial(_models_of, [step]))
                stack.enter_context(doing)
            yield

    def _step(self, sketch: SketchedPlan, device: str, number: int | None) -> Step:
        return whole(sketch.imported.model, device) if number is None else sketch.plan.steps[number]

    def _given(self, sketch: SketchedPlan, step: Step) -> Model:
        """Return what a step's own device is given to prepare, unless it has kept that in the cache."""
        return step.source or sketch.survey.optimisations.prepared(step).model

    def _is_unasked(self, device: str) -> bool:
        """Return whether a device was not asked about what it is to prepare."""
        return False

    def _check(self) -> None:
        """Check what a device prepares at this moment. Raises NnhalError if it must not."""

    def _check_prepared(self) -> None:
        """Check what a device has prepared, at a load or later. Raises NnhalError if it must not be used."""

    def _prepare_all(
        self, sketch: SketchedPlan, announcements: Announcements, deadline_ns: int, awaits: bool
    ) -> list[Part]:
        """Prepare a part for each step. Raises PreparationError, after releasing the parts that were prepared."""
        plan, prepare_step = sketch.plan, self._preparing(sketch, announcements, deadline_ns, awaits)
        devices = dict.fromkeys(step.device for step in plan.steps)
        parts: list[Part] = []
        device = ""
        try:
            with announcements.loading([self._surveys.members[name] for name in devices]):
                for number, step in enumerate(plan.steps):
                    device = step.device
                    parts.append(prepare_step(device, number))
        except NnhalError as error:
            with announcements.unloading():
                for part in parts:
                    part.prepared.release()
            raise PreparationError(device, error) from error
        return parts


def _models_of(steps: Sequence[Step]) -> list[Model]:
    """Return what stands for steps whatever way they are prepared."""
    return [step.source or step.model for step in steps]


def _as_it_is(step: Step) -> Model:
    return step.model


def _is_converted(plan: SketchedPlan) -> bool:
    return plan.choice.images is not None and plan.choice.images.is_converted


def _relaxed(imported: ImportedModel) -> ImportedModel:
    """The model with computation that may be relaxed to float16."""
    return replace(imported, model=replace(imported.model, relax_computation_float32_to_float16=True))


def _without_pins(options: Options, devices: Collection[str]) -> Options:
    return replace(options, pins=tuple(pin for pin in options.pins if pin.device not in devices))


def _listed(names: Collection[str]) -> str:
    return "one of " + ", ".join(sorted(names)) if names else "none"


class PreparationError(Exception):
    """A device could not prepare its part of a plan."""

    def __init__(self, device: str, reason: NnhalError) -> None:
        super().__init__(device, reason)
        self.device = device
        self.reason = reason
