"""Times inside a step, as devices report them: the operations of its prepared model, which operators ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote.admin import DeviceAdmin, FrameworkAdmin
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1.framework_admin_pb2 import PlanTarget
from nnhal_client.explanation import Explanation, OperationStory


class Operated(NamedTuple):
    """The processes of a testbed, for an operator."""

    framework: Endpoint
    devices: Mapping[str, Endpoint]
    key: str
    """The admin key of all of them."""


@dataclass(frozen=True, slots=True)
class ReportedTime:
    """An operation of a step, or what the device has made of some, by the device's own account."""

    name: str
    """As the device calls it."""
    operations: tuple[int, ...]
    """Those that it stands for, by their indexes among the operations of the plan; empty if it is none of them."""
    step: int
    device: str
    is_modelled: bool
    """Whether it is by a model of the device's hardware, and not by a clock."""
    duration_ns: float
    """A modelled one is scaled, so that those of a step add up to the step's own time."""


def reported_times(
    operated: Operated, model: str, explanation: Explanation, device_ns: Sequence[float]
) -> tuple[list[ReportedTime], list[str]]:
    """Ask the device of each step of a model of this process's session, and say which devices tell nothing.

    ``device_ns`` is the time of each step on its device, which cycles are a part of; -1 if it is not known.
    """
    found: list[ReportedTime] = []
    notes: list[str] = []
    try:
        handles = _prepared_models(operated, model)
    except NnhalError as error:
        return [], [f"no times by operation: {error}"]
    for number, (step, handle) in enumerate(zip(explanation.steps, handles, strict=False)):
        if not handle or step.device not in operated.devices:
            notes.append(f"step {number}: {step.device} is not asked for times by operation")
            continue
        try:
            with DeviceAdmin(operated.devices[step.device], operated.key) as device:
                reported = device.operation_times(handle)
        except NnhalError as error:
            notes.append(f"step {number}: no times by operation from {step.device}: {error}")
            continue
        found += times_of(reported, explanation, number, device_ns[number])
        scaled = f", {reported.unit} scaled to the step's time on the device" if reported.is_modelled else ""
        notes.append(f"step {number}, times by operation from {step.device}: {reported.note}{scaled}")
    return found, notes


def times_of(
    reported: wire.MeasureOperationsResponse, explanation: Explanation, step: int, device_ns: float
) -> list[ReportedTime]:
    """Return the times that a device tells of a step's prepared model, in the order of the run."""
    numbers = [index for index, story in enumerate(explanation.operations) if story.step == step]
    by_name = {name: index for index in numbers for name in _names(explanation.operations[index]) if name}
    # A step in its source form is one operation, which is named by its nodes.
    is_as_planned = reported.operation_count == len(numbers)
    whole = sum(each.duration for each in reported.times)
    if reported.is_modelled and (not whole or device_ns < 0):
        return []
    scale = device_ns / whole if reported.is_modelled else 1.0
    device = explanation.steps[step].device
    found = []
    for each in reported.times:
        own = by_name.get(each.name)
        if own is not None:
            operations: tuple[int, ...] = (own,)
        else:
            known = (number for number in each.operations if is_as_planned and 0 <= number < len(numbers))
            operations = tuple(numbers[number] for number in known)
        found.append(ReportedTime(each.name, operations, step, device, reported.is_modelled, each.duration * scale))
    return found


def _names(story: OperationStory) -> tuple[str, ...]:
    return (*story.outputs, *story.nodes)


def _prepared_models(operated: Operated, model: str) -> Sequence[int]:
    """The handle of each step's prepared model. Raises NnhalError if the framework does not tell."""
    with FrameworkAdmin(operated.framework, operated.key) as framework:
        sessions = framework.process().sessions
        owner = next(each.id for each in sessions if any(owned.kind == "loaded model" for owned in each.objects))
        return framework.explain(PlanTarget(model=model, session=owner)).prepared_models
