"""Invalid models, which every device must refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from nnhal.types import Ashmem, Model, Operand, OperandLifeTime, OperandType, Operation
from nnhal_tools.stress.memory import new_file


def _with_operand(model: Model, index: int, operand: Operand) -> Model:
    operands = list(model.main.operands)
    operands[index] = operand
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def _with_operation(model: Model, operation: Operation) -> Model:
    return replace(model, main=replace(model.main, operations=(operation, *model.main.operations[1:])))


def _negative_dimension(model: Model) -> Model:
    first = model.main.input_indexes[0]
    return _with_operand(model, first, replace(model.main.operands[first], dimensions=(-4, 8)))


def _unknown_operation(model: Model) -> Model:
    return _with_operation(model, replace(model.main.operations[0], type=9999))


def _unknown_operand_type(model: Model) -> Model:
    first = model.main.input_indexes[0]
    return _with_operand(model, first, replace(model.main.operands[first], type=777))


def _operand_out_of_range(model: Model) -> Model:
    operation = model.main.operations[0]
    return _with_operation(model, replace(operation, inputs=(*operation.inputs[:-1], len(model.main.operands))))


def _negative_operand(model: Model) -> Model:
    operation = model.main.operations[0]
    return _with_operation(model, replace(operation, outputs=(-1,)))


def _too_few_operands(model: Model) -> Model:
    operation = model.main.operations[0]
    return _with_operation(model, replace(operation, inputs=()))


def _no_operations(model: Model) -> Model:
    return replace(model, main=replace(model.main, operations=()))


def _no_inputs(model: Model) -> Model:
    return replace(model, main=replace(model.main, input_indexes=()))


def _output_twice(model: Model) -> Model:
    return replace(model, main=replace(model.main, output_indexes=model.main.output_indexes * 2))


def _constant_beyond_its_memory(model: Model) -> Model:
    """Make the first input a constant beyond the end of its memory."""
    first = model.main.input_indexes[0]
    operand = model.main.operands[first]
    location = replace(operand.location, offset=len(model.operand_values), length=1 << 20)
    constant = replace(operand, lifetime=OperandLifeTime.CONSTANT_COPY, location=location)
    changed = _with_operand(model, first, constant)
    return replace(changed, main=replace(changed.main, input_indexes=changed.main.input_indexes[1:]))


def _constant_in_no_pool(model: Model) -> Model:
    changed = _constant_beyond_its_memory(model)
    first = model.main.input_indexes[0]
    operand = changed.main.operands[first]
    location = replace(operand.location, pool_index=len(model.pools), offset=0, length=4)
    constant = replace(operand, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)
    return _with_operand(changed, first, constant)


def _pool_that_may_shrink(model: Model) -> Model:
    return replace(model, pools=(*model.pools, Ashmem(new_file(bytes(64)), 64)))


def _dangling_subgraph(model: Model) -> Model:
    main = model.main
    reference = Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH)
    location = replace(reference.location, offset=len(model.referenced))
    return replace(model, main=replace(main, operands=(*main.operands, replace(reference, location=location))))


_BREAKS: list[Callable[[Model], Model]] = [
    _negative_dimension,
    _unknown_operation,
    _unknown_operand_type,
    _operand_out_of_range,
    _negative_operand,
    _too_few_operands,
    _no_operations,
    _no_inputs,
    _output_twice,
    _constant_beyond_its_memory,
    _constant_in_no_pool,
    _pool_that_may_shrink,
    _dangling_subgraph,
]

TOO_FEW_OPERANDS = "too few operands"
"""What break_model says of a model whose first operation has no inputs."""


def break_model(model: Model, random: Random) -> tuple[str, Model]:
    """Break a model in a random way. Returns what is wrong with it, and the invalid model."""
    break_ = random.choice(_BREAKS)
    return break_.__name__.lstrip("_").replace("_", " "), break_(model)
