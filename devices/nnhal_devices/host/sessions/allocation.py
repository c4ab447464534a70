"""IDevice.allocate: the roles that a buffer may have, and its dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import general_failure, invalid_argument
from nnhal.types import BufferRole
from nnhal.types.layout import Dimensions, is_extension
from nnhal.validation.roles import DeclaredRole, type_name, validate_roles
from nnhal_devices.host.memory.budget import DeviceMemoryBudget
from nnhal_devices.host.memory.counters import Counters
from nnhal_devices.host.memory.device_memory import ArgumentRole, DeviceBuffer
from nnhal_devices.host.runs.prepared_model import PreparedModel


def allocate(
    dimensions: Dimensions,
    prepared_models: Sequence[PreparedModel],
    input_roles: Sequence[BufferRole],
    output_roles: Sequence[BufferRole],
    budget: DeviceMemoryBudget,
    counters: Counters,
    largest: Dimensions = (),
) -> DeviceBuffer:
    """Allocate a buffer for the given roles (contract rows MD-01 to MD-20), with room for the ``largest`` dimensions.

    Raises INVALID_ARGUMENT if the arguments are invalid, GENERAL_FAILURE if the device has no such memory.
    """
    if not prepared_models or not (input_roles or output_roles):
        invalid_argument(
            f"{len(prepared_models)} prepared models and {len(input_roles) + len(output_roles)} roles, expected at "
            "least one of each"
        )
    declared = [
        _declared(role, is_output, prepared_models)
        for is_output, given in ((False, input_roles), (True, output_roles))
        for role in given
    ]
    combined = validate_roles([role for role, _ in declared], dimensions)
    first = declared[0][0].operand
    if is_extension(first.type):
        general_failure(f"the device has no memory of its own for values of type {declared[0][0].type_name}")
    roles = {found: role.operand for role, found in declared}
    return DeviceBuffer(first, combined, roles, budget, counters, largest)


def _declared(
    role: BufferRole, is_output: bool, prepared_models: Sequence[PreparedModel]
) -> tuple[DeclaredRole, ArgumentRole]:
    what = "output" if is_output else "input"
    if not 0 <= role.model_index < len(prepared_models):
        invalid_argument(f"an {what} role of prepared model {role.model_index}, there are {len(prepared_models)}")
    prepared = prepared_models[role.model_index]
    model = prepared.model.model
    indexes = model.main.output_indexes if is_output else model.main.input_indexes
    if not 0 <= role.io_index < len(indexes):
        invalid_argument(f"a role of {what} {role.io_index}, prepared model {role.model_index} has {len(indexes)}")
    found = ArgumentRole(prepared.identity, is_output, role.io_index)
    operand = model.main.operands[indexes[role.io_index]]
    name = f"{found} of prepared model {role.model_index}"
    declared = DeclaredRole(name, found, operand, operand.dimensions, type_name(operand, model), role.probability)
    return declared, found
