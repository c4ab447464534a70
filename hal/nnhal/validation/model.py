"""Rules about whole models (contract rows MV-01 to MV-25)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from nnhal.errors import invalid_argument
from nnhal.extensions import is_extension_name
from nnhal.memory.pool import validate_pool
from nnhal.operations import DEFINITIONS, Signature
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal.types.layout import is_extension
from nnhal.validation.control_flow import control_flow_level, validate_acyclic
from nnhal.validation.operand import validate_draft_operand, validate_location

_WRITTEN = (OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT)
MAX_PREFIX = 0x7FFF
_LAST_OPERATION = max(OperationType).value


def validate_model(model: Model) -> int:
    """Check a model and return the feature level that it needs. Raises HalError(INVALID_ARGUMENT)."""
    pool_sizes = [validate_pool(pool, f"pool {index} of the model") for index, pool in enumerate(model.pools)]
    _extensions(model)
    graphs, kinds = (model.main, *model.referenced), _Kinds(model)
    numbers = [_subgraph(model, pool_sizes, graph, _name(number), kinds) for number, graph in enumerate(graphs)]
    validate_acyclic(model)
    return max(
        kinds.level(number, index, numbers[number])
        for number, graph in enumerate(graphs)
        for index in range(len(graph.operations))
    )


class _Kinds:
    """Operands and operations that rules about types cannot tell apart: they are checked once for all of a kind.

    A kind of operands has a number. It does not tell lengths of axes, which few operations compare.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._resolved = ResolvedModel(model, ({},) * (1 + len(model.referenced)))
        self._numbers: dict[Hashable, int] = {}
        self._levels: dict[Hashable, int] = {}

    def number(self, operand: Operand, place: str) -> int:
        """Return the number of an operand's kind. Raises as ``validate_draft_operand``."""
        rest = operand.type, operand.scale, operand.zero_point, operand.lifetime, operand.extra_params
        number = self._numbers.get((operand.dimensions, rest))
        if number is None:
            validate_draft_operand(self._model, operand, place)
            number = self._numbers.setdefault((len(operand.dimensions), rest), len(self._numbers))
            self._numbers[operand.dimensions, rest] = number
        return number

    def level(self, subgraph: int, index: int, numbers: Sequence[int]) -> int:
        """Return the feature level of an operation, given the kinds of its subgraph's operands.

        Raises INVALID_ARGUMENT.
        """
        operation = self._resolved.subgraphs[subgraph].operations[index]
        inputs, outputs = ([numbers[operand] for operand in each] for each in (operation.inputs, operation.outputs))
        kind = operation.type, tuple(inputs), tuple(outputs)
        level = self._levels.get(kind)
        if level is None:
            level = _operation_level(self._resolved, subgraph, index)
            definition = None if is_extension(operation.type) else DEFINITIONS.get(OperationType(operation.type))
            if definition is not None and not definition.compares_lengths:
                self._levels[kind] = level
        return level


def validate_draft(model: Model) -> None:
    """Check the operands and operations of main, each alone, in a model that is still being built.

    Neither where values lie nor which operation writes which operand is looked at. Raises HalError(INVALID_ARGUMENT).
    """
    _extensions(model)
    graph = model.main
    for index, operand in enumerate(graph.operands):
        validate_draft_operand(model, operand, f"operand {index}")
    prefixes = {entry.prefix for entry in model.extension_name_to_prefix}
    resolved = ResolvedModel(model, ({},) * (1 + len(model.referenced)))
    for number, operation in enumerate(graph.operations):
        _operation_type(operation, prefixes, f"operation {number}")
        for index in (*operation.inputs, *operation.outputs):
            if not 0 <= index < len(graph.operands):
                invalid_argument(f"operation {number} names operand {index}, expected 0 to {len(graph.operands) - 1}")
        _operation_level(resolved, 0, number)


def _name(number: int) -> str:
    return f" of referenced subgraph {number - 1}" if number else ""


def _extensions(model: Model) -> None:
    names = [entry.name for entry in model.extension_name_to_prefix]
    prefixes = [entry.prefix for entry in model.extension_name_to_prefix]
    for name, prefix in zip(names, prefixes, strict=True):
        if not is_extension_name(name):
            invalid_argument(
                f"extension name {name!r}: expected lower-case letters, digits, '.' and '_' with at least one dot"
            )
        if not 1 <= prefix <= MAX_PREFIX:
            invalid_argument(f"extension {name!r} has prefix {prefix}, expected 1 to {MAX_PREFIX}")
    if len(set(names)) < len(names):
        invalid_argument(f"extension names are not unique: {names}")
    if len(set(prefixes)) < len(prefixes):
        invalid_argument(f"extension prefixes are not unique: {prefixes}")


def _subgraph(model: Model, pool_sizes: Sequence[int], graph: Subgraph, suffix: str, kinds: _Kinds) -> list[int]:
    """Check a subgraph but for what its operations say of their operands, and return the kinds of these."""
    if not graph.operands or not graph.operations:
        invalid_argument(
            f"subgraph{suffix or ' main'} has {len(graph.operands)} operands and {len(graph.operations)} operations, "
            "expected at least one of each"
        )
    numbers: list[int] = []
    for index, operand in enumerate(graph.operands):
        place = f"operand {index}{suffix}"
        numbers.append(kinds.number(operand, place))
        validate_location(model, pool_sizes, operand, place)
    _listed(graph, graph.input_indexes, OperandLifeTime.SUBGRAPH_INPUT, "input", suffix)
    _listed(graph, graph.output_indexes, OperandLifeTime.SUBGRAPH_OUTPUT, "output", suffix)
    _data_flow(model, graph, suffix)
    return numbers


def _listed(graph: Subgraph, indexes: Sequence[int], lifetime: OperandLifeTime, what: str, suffix: str) -> None:
    for index in indexes:
        if not 0 <= index < len(graph.operands):
            invalid_argument(f"{what} list{suffix} names operand {index}, expected 0 to {len(graph.operands) - 1}")
        if graph.operands[index].lifetime != lifetime:
            got = OperandLifeTime(graph.operands[index].lifetime).name
            invalid_argument(f"operand {index}{suffix} is listed as {what} but has lifetime {got}")
    listed = set(indexes)
    if len(listed) < len(indexes):
        invalid_argument(f"{what} list{suffix} names an operand twice: {list(indexes)}")
    for index, operand in enumerate(graph.operands):
        if operand.lifetime == lifetime and index not in listed:
            invalid_argument(f"operand {index}{suffix} has lifetime {lifetime.name} but is not in the {what} list")


def _data_flow(model: Model, graph: Subgraph, suffix: str) -> None:
    prefixes = {entry.prefix for entry in model.extension_name_to_prefix}
    written: set[int] = set()
    for number, operation in enumerate(graph.operations):
        place = f"operation {number}{suffix}"
        _operation_type(operation, prefixes, place)
        for position, index in enumerate(operation.inputs):
            if not 0 <= index < len(graph.operands):
                invalid_argument(
                    f"{place}: input {position} is operand {index}, expected 0 to {len(graph.operands) - 1}"
                )
            if graph.operands[index].lifetime in _WRITTEN and index not in written:
                invalid_argument(f"{place}: input {position} is operand {index}, which no earlier operation writes")
        for position, index in enumerate(operation.outputs):
            if not 0 <= index < len(graph.operands):
                invalid_argument(
                    f"{place}: output {position} is operand {index}, expected 0 to {len(graph.operands) - 1}"
                )
            if graph.operands[index].lifetime not in _WRITTEN:
                got = OperandLifeTime(graph.operands[index].lifetime).name
                invalid_argument(
                    f"{place}: output {position} is operand {index}, whose lifetime {got} must not be written"
                )
            if index in written:
                invalid_argument(
                    f"{place}: output {position} is operand {index}, which an earlier operation already writes"
                )
            written.add(index)
    for index, operand in enumerate(graph.operands):
        if operand.lifetime in _WRITTEN and index not in written:
            got = OperandLifeTime(operand.lifetime).name
            invalid_argument(f"operand {index}{suffix} has lifetime {got} but no operation writes it")


def _operation_type(operation: Operation, prefixes: set[int], place: str) -> None:
    if is_extension(operation.type):
        if operation.type >> 16 not in prefixes:
            invalid_argument(f"{place} has type {operation.type:#x}, whose prefix the model maps to no extension")
    elif not 0 <= operation.type <= _LAST_OPERATION:
        invalid_argument(f"{place} has type {operation.type}, expected 0 to {_LAST_OPERATION}")


def _operation_level(resolved: ResolvedModel, number: int, index: int) -> int:
    operation = resolved.subgraphs[number].operations[index]
    if is_extension(operation.type):
        return 1
    kind = OperationType(operation.type)
    if kind in (OperationType.IF, OperationType.WHILE):
        return control_flow_level(resolved.model, number, index, describe_operation(resolved.model, index, number))
    definition = DEFINITIONS.get(kind)
    if definition is None:
        return 1
    signature = Signature(resolved.context(number, index))
    signature.since(definition.since)
    definition.validate(signature)
    return signature.level
