"""Values that pass between steps in the devices' own element type.

In a model with relaxed computation, a device may hold float32 values as float16. If such a value passes between devices
of that kind only, it stays so: half the bytes, and no conversion. The models of the steps say it in the HAL's words: a
float16 input or output, and a CAST at the border, which any other device can run too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType
from nnhal_service.partition.plan import Plan, Step

_NARROW = OperandType.TENSOR_FLOAT16


def carry(model: Model, plan: Plan, devices: Collection[str]) -> Plan:
    """Return the plan in which ``devices`` pass float32 values to one another as float16.

    It is unchanged if the model is not relaxed, or if the framework walks control flow.
    """
    if not model.relax_computation_float32_to_float16 or plan.walk is not None:
        return plan
    carried = _between(model, plan, devices)
    if not carried:
        return plan
    steps = tuple(_with_casts(step, carried) for step in plan.steps)
    return replace(plan, steps=steps, carried=dict.fromkeys(sorted(carried), int(_NARROW)))


def _between(model: Model, plan: Plan, devices: Collection[str]) -> set[int]:
    """Float32 values that are written and read by such devices only, and not by the client."""
    ours = {
        operand
        for step in plan.steps
        if step.device in devices
        for operand in step.outputs
        if model.main.operands[operand].type == OperandType.TENSOR_FLOAT32
    }
    elsewhere = {operand for step in plan.steps if step.device not in devices for operand in step.inputs}
    return ours - elsewhere - set(model.main.output_indexes)


def _with_casts(step: Step, carried: Collection[int]) -> Step:
    """A step with a CAST after each input and before each output that is carried."""
    main = step.model.main
    inputs = _narrowed(main.input_indexes, step.inputs, carried, len(main.operands))
    outputs = _narrowed(main.output_indexes, step.outputs, carried, len(main.operands) + len(inputs))
    if not inputs and not outputs:
        return step
    operands = list(main.operands)
    for wide in (*inputs, *outputs):
        operands.append(replace(main.operands[wide], type=_NARROW))
        operands[wide] = _temporary(main.operands[wide])
    operations = (
        *(Operation(OperationType.CAST, (narrow,), (wide,)) for wide, narrow in inputs.items()),
        *main.operations,
        *(Operation(OperationType.CAST, (wide,), (narrow,)) for wide, narrow in outputs.items()),
    )
    graph = replace(
        main,
        operands=tuple(operands),
        operations=operations,
        input_indexes=tuple(inputs.get(index, index) for index in main.input_indexes),
        output_indexes=tuple(outputs.get(index, index) for index in main.output_indexes),
    )
    return replace(step, model=replace(step.model, main=graph), carried=tuple(sorted(_carried_by(step, carried))))


def _narrowed(
    indexes: Collection[int], sources: Collection[int], carried: Collection[int], first: int
) -> Mapping[int, int]:
    """The operand that takes the place of each input or output of a step that is carried, numbered from ``first``."""
    wide = [index for index, source in zip(indexes, sources, strict=True) if source in carried]
    return {index: first + position for position, index in enumerate(wide)}


def _carried_by(step: Step, carried: Collection[int]) -> set[int]:
    return {*step.inputs, *step.outputs} & set(carried)


def _temporary(operand: Operand) -> Operand:
    return replace(operand, lifetime=OperandLifeTime.TEMPORARY_VARIABLE)
