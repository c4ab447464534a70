"""IDevice.allocate: the roles that a buffer may have, and its dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnhal.errors import general_failure, invalid_argument
from nnhal.types import BufferRole, Operand
from nnhal.types.layout import Dimensions, combine, describe, is_extension, is_scalar
from nnhal_devices.host.counters import Counters
from nnhal_devices.host.device_memory import ArgumentRole, DeviceBuffer
from nnhal_devices.host.memory_budget import DeviceMemoryBudget
from nnhal_devices.host.prepared_model import PreparedModel


def allocate(
    dimensions: Dimensions,
    prepared_models: Sequence[PreparedModel],
    input_roles: Sequence[BufferRole],
    output_roles: Sequence[BufferRole],
    budget: DeviceMemoryBudget,
    counters: Counters,
) -> DeviceBuffer:
    """Allocate a buffer for the given roles (contract rows MD-01 to MD-20).

    Raises INVALID_ARGUMENT if the arguments are invalid, GENERAL_FAILURE if the device has no such memory.
    """
    if min(dimensions, default=0) < 0:
        invalid_argument(f"dimensions {list(dimensions)}, expected none below 0")
    if not prepared_models or not (input_roles or output_roles):
        invalid_argument(
            f"{len(prepared_models)} prepared models and {len(input_roles) + len(output_roles)} roles, expected at "
            "least one of each"
        )
    roles: dict[ArgumentRole, Operand] = {}
    for is_output, given in ((False, input_roles), (True, output_roles)):
        for role in given:
            found, operand = _resolve(role, is_output, prepared_models)
            if found in roles:
                invalid_argument(f"{found} of prepared model {role.model_index} is given twice")
            roles[found] = operand
    first = next(iter(roles.values()))
    for found, operand in roles.items():
        _require_like(operand, first, found)
    combined = _combine(dimensions, roles)
    if is_scalar(first.type) and dimensions:
        invalid_argument(f"dimensions {describe(dimensions)} for a scalar")
    if is_extension(first.type):
        general_failure(f"the device has no memory of its own for values of extension type {first.type:#x}")
    return DeviceBuffer(first, combined, roles, budget, counters)


def _resolve(
    role: BufferRole, is_output: bool, prepared_models: Sequence[PreparedModel]
) -> tuple[ArgumentRole, Operand]:
    what = "output" if is_output else "input"
    if role.model_index < 0 or role.model_index >= len(prepared_models):
        invalid_argument(f"an {what} role of prepared model {role.model_index}, there are {len(prepared_models)}")
    prepared = prepared_models[role.model_index]
    main = prepared.model.model.main
    indexes = main.output_indexes if is_output else main.input_indexes
    if role.io_index < 0 or role.io_index >= len(indexes):
        invalid_argument(f"a role of {what} {role.io_index}, prepared model {role.model_index} has {len(indexes)}")
    if not 0 < role.probability <= 1:
        invalid_argument(f"a role with probability {role.probability}, expected above 0 and at most 1")
    return ArgumentRole(prepared.identity, is_output, role.io_index), main.operands[indexes[role.io_index]]


def _require_like(operand: Operand, first: Operand, role: ArgumentRole) -> None:
    if operand.type != first.type:
        invalid_argument(f"{role} has type {operand.type}, another role has {first.type}")
    if is_extension(operand.type):
        return
    for name in ("scale", "zero_point", "extra_params"):
        got, expected = getattr(operand, name), getattr(first, name)
        if got != expected:
            invalid_argument(f"{role} has {name} {got}, another role has {expected}")


def _combine(dimensions: Dimensions, roles: Mapping[ArgumentRole, Operand]) -> Dimensions:
    combined = dimensions
    for role, operand in roles.items():
        merged = combine(combined, operand.dimensions)
        if merged is None:
            invalid_argument(
                f"{role} has dimensions {describe(operand.dimensions)}, the buffer would have {describe(combined)}"
            )
        combined = merged
    return combined
