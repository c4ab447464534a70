"""The choice between a model as it is and with channels last: what its devices say of both, and which is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Options, Pin, PlacementError, Step, Strategy, holding_pins, require_pins
from nnhal_service.runtime.devices.fleet import Fleet, FleetMember
from nnhal_service.runtime.plan.channels_last import with_channels_last
from nnhal_service.runtime.plan.sketch import ImageLayout, SketchedPlan, sketched
from nnhal_service.runtime.plan.survey import Survey, survey_model


@dataclass(frozen=True, slots=True)
class LayoutSurveys:
    """Answers of the devices about a model."""

    declared: Survey
    """About the model as it was imported."""
    converted: Survey | None
    """About the model with channels last; None if no device asks for that."""

    @property
    def members(self) -> Mapping[str, FleetMember]:
        return self.declared.members

    def says_the_same(self, other: LayoutSurveys) -> bool:
        """Return whether the devices have answered the same as in other surveys of the model."""
        mine, theirs = self.converted, other.converted
        if mine is None or theirs is None:
            return mine is theirs and self.declared.says_the_same(other.declared)
        return self.declared.says_the_same(other.declared) and mine.says_the_same(theirs)

    def of(self, members: Sequence[FleetMember]) -> LayoutSurveys:
        """Return the same answers of some of the devices only, which are connected by now as these members."""
        declared, converted = self.declared.of(members), self.converted
        wanted = declared.wanting and converted is not None and converted.of(members)
        return LayoutSurveys(declared, wanted or None)

    def trusting(self, has_entry: Callable[[Step, bool, bool], bool]) -> LayoutSurveys:
        """Return the same answers, without a question about steps that have entries in a cache.

        ``has_entry`` is given a step, whether it is one of several, and whether channels are last.
        """
        return LayoutSurveys(
            _trusting(self.declared, has_entry, False), self.converted and _trusting(self.converted, has_entry, True)
        )

    def sketched(self, options: Options, left_out: Mapping[str, str]) -> SketchedPlan:
        """Plan without the devices that are ``left_out``, which have reasons, in the layout that takes less time.

        Raises PlacementError if an operation has no device, or a pin cannot be kept.
        """
        wanting = self.declared.wanting - left_out.keys()
        if self.converted is None or not wanting or options.strategy == Strategy.CPU_ONLY:
            return sketched(self.declared, options, left_out)
        task = self.declared.task
        require_pins(task.model, task.names, self.declared.candidates, options.pins)
        declared = _attempt(self.declared, options, left_out)
        converted = _converted(self.converted, options, left_out)
        if isinstance(converted, PlacementError):
            if isinstance(declared, PlacementError):
                raise declared
            return _with_images(declared, ImageLayout(False, tuple(sorted(wanting)), None, str(converted)))
        if isinstance(declared, PlacementError):
            return _with_images(converted, ImageLayout(True, tuple(sorted(wanting)), None, str(declared)))
        better = _is_better(converted, declared, wanting)
        chosen, other = (converted, declared) if better else (declared, converted)
        return _with_images(chosen, ImageLayout(better, tuple(sorted(wanting)), other.modelled_ns, ""))


def _trusting(survey: Survey, has_entry: Callable[[Step, bool, bool], bool], is_converted: bool) -> Survey:
    count = len(survey.task.model.main.operations)
    kept = survey.optimisations.trusting(lambda step: has_entry(step, len(step.operations) < count, is_converted))
    return replace(survey, optimisations=kept)


def survey_layouts(imported: ImportedModel, fleet: Fleet, devices: Sequence[str]) -> LayoutSurveys:
    """Ask the named devices, or all if none are named, about a model; about it with channels last if one wants that.

    Raises as ``survey_model`` does.
    """
    declared = survey_model(imported, fleet, devices)
    model = with_channels_last(imported) if declared.wanting else None
    if model is None:
        return LayoutSurveys(declared, None)
    converted = survey_model(model.imported, fleet, tuple(declared.members))
    return LayoutSurveys(declared, replace(converted, origins=model.origins))


def _attempt(survey: Survey, options: Options, left_out: Mapping[str, str]) -> SketchedPlan | PlacementError:
    try:
        return sketched(survey, options, left_out)
    except PlacementError as error:
        return error


def _converted(survey: Survey, options: Options, left_out: Mapping[str, str]) -> SketchedPlan | PlacementError:
    """The plan with channels last. A pin of operations that it does without is kept."""
    task, pins = survey.task, [_renumbered(pin, survey.origins) for pin in options.pins]
    held = tuple(pin for pin in pins if holding_pins(task.model, task.names, [pin]))
    found = _attempt(survey, replace(options, pins=held), left_out)
    return (
        found if isinstance(found, PlacementError) else replace(found, choice=replace(found.choice, pins=tuple(pins)))
    )


def _with_images(sketch: SketchedPlan, images: ImageLayout) -> SketchedPlan:
    return replace(sketch, choice=replace(sketch.choice, images=images))


def _renumbered(pin: Pin, origins: Sequence[int | None]) -> Pin:
    """A pin by numbers of the model as it was imported, for operations with these origins."""
    if not pin.is_by_number:
        return pin
    covered = (n for n, origin in enumerate(origins) if origin is not None and pin.has_number(origin))
    return replace(pin, operations=frozenset(covered))


def _is_better(converted: SketchedPlan, declared: SketchedPlan, wanting: frozenset[str]) -> bool:
    """Return whether channels last gives the devices that want it something to do, and takes less modelled time.

    If there is no modelled time, it is better if they have more of the model's operations.
    """
    count = _operations_on(converted, wanting)
    if converted.modelled_ns is not None and declared.modelled_ns is not None:
        return count > 0 and converted.modelled_ns < declared.modelled_ns
    return count > _operations_on(declared, wanting)


def _operations_on(sketch: SketchedPlan, devices: frozenset[str]) -> int:
    steps = [step for step in sketch.plan.steps if step.device in devices and not step.scope]
    return sum(sketch.survey.origins[number] is not None for step in steps for number in step.operations)
