"""Rules about IF, WHILE and the subgraphs that they refer to (contract rows MV-07, MV-22, CF-01 to CF-05, CF-11)."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import invalid_argument
from nnhal.operations import type_name
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, OperationType, Subgraph
from nnhal.types.layout import combine, describe

LEVEL = 4
"""The feature level that introduced control flow."""
MAX_DEPTH = 64
"""Depth of nested subgraphs: branches and bodies of IF and WHILE. Devices walk them by recursion."""


def validate_acyclic(model: Model) -> None:
    """Refuse subgraphs that refer to themselves, directly or through others, and those that nest too deep."""
    references = [
        {operand.location.offset for operand in graph.operands if operand.lifetime == OperandLifeTime.SUBGRAPH}
        for graph in model.referenced
    ]
    settled: set[int] = set()
    for _ in range(MAX_DEPTH):
        if len(settled) == len(references):
            return
        ready = {i for i, needs in enumerate(references) if i not in settled and needs <= settled}
        if not ready:
            cycle = sorted(set(range(len(references))) - settled)
            invalid_argument(f"referenced subgraphs {cycle} refer to one another in a cycle")
        settled |= ready
    if len(settled) < len(references):
        invalid_argument(f"referenced subgraphs nest more than {MAX_DEPTH} deep")


def control_flow_level(model: Model, number: int, index: int, place: str) -> int:
    """Check one IF or WHILE of subgraph ``number`` (0 is main) and return the feature level that it needs."""
    graph = (model.main, *model.referenced)[number]
    operation = graph.operations[index]
    inputs = [graph.operands[i] for i in operation.inputs]
    outputs = [graph.operands[i] for i in operation.outputs]
    if len(inputs) < 3 or len(outputs) < 1:
        invalid_argument(
            f"{place}: got {len(inputs)} inputs and {len(outputs)} outputs, expected at least 3 inputs and 1 output"
        )
    if operation.type == OperationType.IF:
        _if(model, inputs, outputs, place)
    else:
        _while(model, inputs, outputs, place)
    return LEVEL


def _if(model: Model, inputs: Sequence[Operand], outputs: Sequence[Operand], place: str) -> None:
    _condition(inputs[0], f"{place}: input 0 (condition)")
    for position, name in ((1, "then"), (2, "else")):
        branch = _reference(model, inputs[position], f"{place}: input {position} ({name})")
        _match(inputs[3:], _operands(branch, branch.input_indexes), f"{place}: the inputs of its {name} branch")
        _match(outputs, _operands(branch, branch.output_indexes), f"{place}: the outputs of its {name} branch")


def _while(model: Model, inputs: Sequence[Operand], outputs: Sequence[Operand], place: str) -> None:
    condition = _reference(model, inputs[0], f"{place}: input 0 (condition)")
    body = _reference(model, inputs[1], f"{place}: input 1 (body)")
    values = inputs[2:]
    _match(values, _operands(condition, condition.input_indexes), f"{place}: the inputs of its condition")
    decision = _operands(condition, condition.output_indexes)
    if len(decision) != 1:
        invalid_argument(f"{place}: its condition has {len(decision)} outputs, expected 1")
    _condition(decision[0], f"{place}: the output of its condition")
    _match(values, _operands(body, body.input_indexes), f"{place}: the inputs of its body")
    results = _operands(body, body.output_indexes)
    if not len(outputs) <= len(results) <= len(values):
        invalid_argument(
            f"{place}: its body has {len(results)} outputs, expected {len(outputs)} (its own) to {len(values)} (values)"
        )
    _match(values[: len(results)], results, f"{place}: the outputs of its body")
    _match(outputs, results[: len(outputs)], f"{place}: the outputs of its body")


def _operands(graph: Subgraph, indexes: Sequence[int]) -> list[Operand]:
    return [graph.operands[index] for index in indexes]


def _condition(operand: Operand, place: str) -> None:
    if operand.lifetime == OperandLifeTime.NO_VALUE:
        invalid_argument(f"{place} is NO_VALUE, expected a value")
    if operand.type != OperandType.TENSOR_BOOL8 or operand.dimensions != (1,):
        invalid_argument(
            f"{place} is {type_name(operand.type)} {describe(operand.dimensions)}, expected TENSOR_BOOL8 [1]"
        )


def _reference(model: Model, operand: Operand, place: str) -> Subgraph:
    if operand.lifetime != OperandLifeTime.SUBGRAPH:
        invalid_argument(f"{place} is {type_name(operand.type)}, expected SUBGRAPH")
    return model.referenced[operand.location.offset]


def _match(outer: Sequence[Operand], inner: Sequence[Operand], what: str) -> None:
    if len(outer) != len(inner):
        invalid_argument(f"{what} are {len(inner)}, expected {len(outer)}")
    for index, (a, b) in enumerate(zip(outer, inner, strict=True)):
        if a.lifetime == OperandLifeTime.NO_VALUE:
            invalid_argument(f"{what}: number {index} is NO_VALUE, expected a value")
        same = (a.type, a.scale, a.zero_point, a.extra_params) == (b.type, b.scale, b.zero_point, b.extra_params)
        if not same or combine(a.dimensions, b.dimensions) is None:
            invalid_argument(
                f"{what}: number {index} is {type_name(b.type)} {describe(b.dimensions)} "
                f"({b.scale}, {b.zero_point}), expected {type_name(a.type)} {describe(a.dimensions)} "
                f"({a.scale}, {a.zero_point})"
            )
