"""Allocation of device memory: for which roles, and of which dimensions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from nnhal.errors import HalError
from nnhal.types import OperandLifeTime, OperandType
from nnhal.types.layout import Dimensions
from nnhal_conformance.device import Prepared, Subject
from nnhal_conformance.device_buffers import DeviceBuffer, allocate
from nnhal_conformance.forms import prepare_form
from nnhal_conformance.rule import FAILURE, INVALID, NotOfferedError, refused, require, rule
from nnhal_conformance.small_models import SHAPE, SmallModel, small_models

GROUP = "buffer-roles"
_PAGE = "client.md#where-it-lies"
_BOTH: dict[str, dict[str, Any]] = {
    "inputs": {"inputs": [(0, 0), (1, 0)]},
    "input and output": {"inputs": [(0, 0)], "outputs": [(1, 0)]},
    "output and input": {"inputs": [(1, 0)], "outputs": [(0, 0)]},
    "outputs": {"outputs": [(0, 0), (1, 0)]},
}
"""Roles of two models."""


def invalid_allocations() -> dict[str, dict[str, Any]]:
    """Roles, models and dimensions that no buffer may have."""
    rows, columns = SHAPE
    wrong_roles: dict[str, Any] = {
        "model 1 of one": [(1, 0)],
        "model -1": [(-1, 0)],
        "argument 9999": [(0, 9999)],
        "argument -1": [(0, -1)],
        **{f"probability {p}": [(0, 0, p)] for p in (10.0, 0.0, -0.5, 1.5, float("nan"), float("inf"))},
        "the same role twice": [(0, 0), (0, 0)],
    }
    wrong_dimensions = ((rows,), (*SHAPE, 1), (rows + 1, columns), (rows, columns + 1), (-1, columns), (rows, -(2**31)))
    cases: dict[str, dict[str, Any]] = {"no roles": {}, "nothing": {"models": []}}
    for side in ("inputs", "outputs"):
        cases |= {f"{what}, {side}": {side: given} for what, given in wrong_roles.items()}
        cases |= {f"{given}, {side}": {side: [(0, 0)], "dimensions": given} for given in wrong_dimensions}
        cases[f"no models, {side}"] = {"models": [], side: [(0, 0)]}
    return cases


@rule(GROUP, _PAGE, "MD-01", "MD-02", "MD-03", "MD-04", "MD-05", "MD-06", "MD-07", "MD-13", "MD-14", "MD-40")
def invalid(device: Subject) -> None:
    """Roles, models and dimensions that cannot be are INVALID_ARGUMENT."""
    held, foreign = DeviceBuffer.on(device).held, device.prepare()
    cases = invalid_allocations()
    for number in (0, -1, foreign.handle, 2**62):
        for models in ([number], [held.handle, number], [number, held.handle]):
            cases[f"models {models}"] = {"models": models, "inputs": [(0, 0)]}
    for what, case in cases.items():
        refused(partial(allocate, held, **case), INVALID, what=what)


@rule(GROUP, _PAGE, "MD-16", "MD-17")
def dimensions(device: Subject) -> None:
    """One role is enough, with no dimensions or with some of those that the operand has."""
    held = DeviceBuffer.on(device).held
    choices: list[Dimensions] = [(), (0, 0), (0, SHAPE[1]), SHAPE]
    for chosen in choices:
        for side in ("inputs", "outputs"):
            buffer = DeviceBuffer(held, allocate(held, **{side: [(0, 0)]}, dimensions=chosen))
            buffer.fill(1)
            buffer.require_values(1)


@rule(GROUP, _PAGE, "MD-07")
def two_preparations(device: Subject) -> None:
    """The same role of two preparations of a model is two roles."""
    held = DeviceBuffer.on(device).held
    models = [held.handle, device.prepare(session=held.session).handle]
    for what, roles in _BOTH.items():
        require(allocate(held, models=models, **roles).token > 0, f"no token for {what}", "a token above 0")


def _others(device: Subject, small: SmallModel) -> list[SmallModel]:
    """Forms of a model whose operands differ from its own by one thing."""
    found = [each for each in small_models() if device.support[each.name] and each.output.type != small.output.type]
    if small.output.scale:
        found += [small.of("of scale 2", scale=2.0), small.of("of zero point 10", zero_point=10)]
    rows, columns = SHAPE
    shapes: list[Dimensions] = [(*SHAPE, 1), (columns,), (rows + 3, columns)]
    return found + [small.of(f"of dimensions {list(shape)}", dimensions=shape) for shape in shapes]


def _supported(device: Subject, small: SmallModel, held: Prepared) -> Prepared | None:
    try:
        return prepare_form(device, small, held.session)
    except NotOfferedError:
        return None


@rule(GROUP, _PAGE, "MD-08", "MD-09", "MD-10", "MD-11", "MD-12")
def differing(device: Subject) -> None:
    """Roles of operands that differ in type, scale, zero point, rank or a dimension are INVALID_ARGUMENT."""
    DeviceBuffer.on(device)
    quantised = next((each for each in small_models() if each.output.scale and device.support[each.name]), None)
    for small in filter(None, (device.small, quantised)):
        held = device.prepare(small.model)
        for form in _others(device, small):
            other = _supported(device, form, held)
            if other is not None:
                for what, roles in _BOTH.items():
                    ask = partial(allocate, held, models=[held.handle, other.handle], **roles)
                    refused(ask, INVALID, what=f"{what} of {small.name} and {form.name}")


def _of_scalar_input(small: SmallModel) -> SmallModel:
    """The model whose constant scalar is its last input. Raises NotOfferedError if it has none."""
    main = small.model.main
    scalar = next((number for number, each in enumerate(main.operands) if each.type == OperandType.INT32), None)
    if scalar is None:
        raise NotOfferedError(f"{small.name} has no scalar")
    given = small.with_operand(scalar, lifetime=OperandLifeTime.SUBGRAPH_INPUT, location=main.operands[0].location)
    listed = replace(given, main=replace(given.main, input_indexes=(*main.input_indexes, scalar)))
    return replace(small, name=f"{small.name} with its activation as an input", model=listed)


@rule(GROUP, _PAGE, "MD-15")
def scalars(device: Subject) -> None:
    """A buffer of a scalar has no dimensions: any are INVALID_ARGUMENT, when it is allocated and when it is filled."""
    small = _of_scalar_input(device.small)
    held = prepare_form(device, small)
    scalar = small.inputs - 1
    for given in ((1,), (0,), (1, 1)):
        refused(partial(allocate, held, [(0, scalar)], dimensions=given), INVALID, what=f"dimensions {given}")
    buffer = DeviceBuffer(held, allocate(held, [(0, scalar)]))
    refused(lambda: buffer.copy_from(bytes(4), (1,)), INVALID, what="copyFrom with dimensions [1]")
    buffer.copy_from(b"\x01\0\0\0")
    require(buffer.copy_to(4) == b"\x01\0\0\0", "other bytes", "those that were copied to it")


@rule(GROUP, _PAGE, "MD-20")
def released(device: Subject) -> None:
    """A released buffer makes room for another one: nothing of it is kept. Releasing it again is ignored."""
    held = DeviceBuffer.on(device).held

    def round_() -> None:
        buffer = DeviceBuffer(held)
        buffer.fill(1)
        buffer.release()
        buffer.release()
        held.session.link.drop()

    device.require_no_growth(8, round_, 4)


@rule(GROUP, _PAGE)
def too_much(device: Subject) -> None:
    """More memory than the device has is GENERAL_FAILURE, and does no other buffer harm."""
    buffer = DeviceBuffer.on(device)
    buffer.fill(1)
    held = prepare_form(device, device.small.of("of any number of rows", dimensions=(0, SHAPE[1])))
    try:
        allocate(held, [(0, 0)], dimensions=(2**31 - 1, SHAPE[1]))
    except HalError as error:
        require(error.status == FAILURE, str(error), "GENERAL_FAILURE")
    buffer.require_values(1)
