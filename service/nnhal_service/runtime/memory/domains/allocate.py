"""Allocating memory for roles: on the one device that uses it, or else on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from nnhal.errors import NnhalError, general_failure
from nnhal.types import BufferRole
from nnhal.types.layout import Dimensions, describe
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Fallback, SourceOperand
from nnhal_service.runtime.memory.domains.allocated import AllocatedMemory
from nnhal_service.runtime.memory.domains.description import MemoryDescription, ModelRole, StepRole, step_roles
from nnhal_service.runtime.memory.domains.storage import BufferStorage, HostStorage, host_memory
from nnhal_service.runtime.plan.parts import Part

_log = get_logger(__name__)


def allocate(roles: Sequence[ModelRole], dimensions: Dimensions = ()) -> AllocatedMemory:
    """Memory for inputs and outputs of loaded models (contract rows MR-05 to MR-10).

    It is a device's own buffer if all the steps that use it are on that device and the device grants one. Otherwise it
    is host memory, unless its size is unknown or a model denies fallback.

    Raises INVALID_ARGUMENT if the roles do not agree, GENERAL_FAILURE if no memory can be allocated.
    """
    description = MemoryDescription.of(roles, dimensions)
    try:
        return AllocatedMemory(description, _on_device(description))
    except NnhalError as error:
        reason = str(error)
    if any(role.prepared.plan.fallback == Fallback.DENY for role in roles):
        general_failure(f"no device can allocate the memory, and a model denies host memory: {reason}")
    size = description.byte_size
    if size == 0:
        unknown = describe(description.dimensions)
        general_failure(f"no device can allocate the memory, and the host cannot for dimensions {unknown}: {reason}")
    _log.info("memory is allocated on the host", bytes=size, reason=reason)
    return AllocatedMemory(description, HostStorage(host_memory(size)))


def _on_device(description: MemoryDescription) -> BufferStorage:
    """A buffer of the one device that uses it. Raises HalError, or TransportError if the device is gone."""
    uses = {role: _steps_of(role) for role in description.roles}
    devices = sorted({device for steps in uses.values() for device in steps.values()})
    if len(devices) != 1:
        general_failure(f"it is used on {', '.join(devices) or 'no device'}, expected one device")
    parts: dict[tuple[int, int], Part] = {}
    translated: dict[bool, list[BufferRole]] = {False: [], True: []}
    for role, steps in uses.items():
        for use in steps:
            part = role.prepared.network, use.step
            parts.setdefault(part, role.prepared.parts.living(use.step))
            translated[use.is_output].append(BufferRole(list(parts).index(part), use.index, role.probability))
    member = next(iter(parts.values())).member
    prepared = [part.prepared for part in parts.values()]
    buffer = member.remote.allocate(prepared, translated[False], translated[True], description.dimensions)
    return BufferStorage(member.name, buffer, partial(_on_device, description))


def _steps_of(role: ModelRole) -> Mapping[StepRole, str]:
    """A role's uses in the steps of the model's plan, with the device of each."""
    plan = role.prepared.plan
    steps = plan.steps if plan.walk is None else plan.walk.steps
    found = step_roles(steps).get(SourceOperand(0, role.number), frozenset())
    return {use: plan.steps[use.step].device for use in sorted(found)}
