"""Allocating memory for roles: on the one device that uses it, or else on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nnhal.errors import HalError, NnhalError, general_failure, invalid_argument
from nnhal.extensions import size_in_bytes
from nnhal.types import BufferRole
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_hosting.logs import get_logger
from nnhal_service.partition import Fallback, SourceOperand
from nnhal_service.runtime.memory.domains.allocated import AllocatedMemory
from nnhal_service.runtime.memory.domains.description import MemoryDescription, ModelRole, StepRole, step_roles
from nnhal_service.runtime.memory.domains.storage import BufferStorage, HostStorage, Storage, host_memory
from nnhal_service.runtime.plan.parts import Part
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan

_log = get_logger(__name__)


def allocate(
    roles: Sequence[ModelRole], dimensions: Dimensions = (), largest: Dimensions = (), is_passed: bool = False
) -> AllocatedMemory:
    """Memory for inputs and outputs of loaded models (contract rows MR-05 to MR-10), with room for the ``largest``
    dimensions if they grow. What ``is_passed`` from run to run may lie on the host as other values between steps do,
    whatever the fallback.

    It is a device's own buffer if all the steps that use it are on that device and the device grants one. Otherwise it
    is host memory, unless its size is unknown or a model denies fallback.

    Raises INVALID_ARGUMENT if the roles do not agree, GENERAL_FAILURE if no memory can be allocated.
    """
    description = MemoryDescription.of(roles, dimensions)
    most = combine(description.dimensions, largest)
    if most is None:
        invalid_argument(f"memory of at most {list(largest)}, its roles have {describe(description.dimensions)}")
    try:
        memory = AllocatedMemory(description, _on_device(description, most if largest else ()))
    except NnhalError as error:
        reason = str(error)
    else:
        if largest:  # the device knows its length
            memory.lend()
        return memory
    if not is_passed and any(role.prepared.plan.fallback == Fallback.DENY for role in roles):
        general_failure(f"no device can allocate the memory, and a model denies host memory: {reason}")
    size = description.byte_size
    if size == 0:
        unknown = describe(description.dimensions)
        general_failure(f"no device can allocate the memory, and the host cannot for dimensions {unknown}: {reason}")
    _log.info("memory is allocated on the host", bytes=size, reason=reason)
    return AllocatedMemory(description, HostStorage(host_memory(size)))


def allocate_kept(prepared: PreparedPlan, operand: int, dimensions: Dimensions) -> Storage:
    """Storage for a value of main that only one device writes and reads, in known ``dimensions``.

    It is the device's own buffer, or host memory if the device refuses. Raises TransportError if the device is gone,
    and GENERAL_FAILURE if the host has no memory either.
    """
    roles = [_PartRole(prepared, use) for use in sorted(step_roles(prepared.plan.steps)[SourceOperand(0, operand)])]
    try:
        return _buffer_of(roles, dimensions)
    except HalError as refusal:
        size = size_in_bytes(prepared.type_of(operand), dimensions, prepared.element_sizes)
        _log.info("a device does not keep a value; it lies on the host", bytes=size, reason=str(refusal))
        return HostStorage(host_memory(size))


class _PartRole(NamedTuple):
    """A use of memory by a part of a plan."""

    prepared: PreparedPlan
    use: StepRole
    probability: float = 1.0


def _on_device(description: MemoryDescription, largest: Dimensions) -> BufferStorage:
    """A buffer of the one device that uses it. Raises HalError, or TransportError if the device is gone."""
    uses = {role: _steps_of(role) for role in description.roles}
    devices = sorted({device for steps in uses.values() for device in steps.values()})
    if len(devices) != 1:
        general_failure(f"it is used on {', '.join(devices) or 'no device'}, expected one device")
    roles = [_PartRole(role.prepared, use, role.probability) for role, steps in uses.items() for use in steps]
    return _buffer_of(roles, description.dimensions, largest)


def _buffer_of(roles: Sequence[_PartRole], dimensions: Dimensions, largest: Dimensions = ()) -> BufferStorage:
    """A buffer for uses by parts on one device. Raises HalError, or TransportError if the device is gone."""
    parts: dict[tuple[int, int], Part] = {}
    translated: dict[bool, list[BufferRole]] = {False: [], True: []}
    for prepared, use, probability in roles:
        part = prepared.network, use.step
        parts.setdefault(part, prepared.parts.living(use.step))
        translated[use.is_output].append(BufferRole(list(parts).index(part), use.index, probability))
    member = next(iter(parts.values())).member
    models = [part.prepared for part in parts.values()]
    buffer = member.remote.allocate(models, translated[False], translated[True], dimensions, largest)
    return BufferStorage(member.name, buffer, partial(_buffer_of, roles, dimensions, largest))


def _steps_of(role: ModelRole) -> Mapping[StepRole, str]:
    """A role's uses in the steps of the model's plan, with the device of each."""
    plan = role.prepared.plan
    steps = plan.steps if plan.walk is None else plan.walk.steps
    found = step_roles(steps).get(SourceOperand(0, role.number), frozenset())
    return {use: plan.steps[use.step].device for use in sorted(found)}
