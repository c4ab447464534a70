"""Invalid models made from valid ones: every mutation of each family of the contract, at every place.

Families are named after the contract's rows. A mutation changes one thing in one subgraph. Mutations that the contract
allows are not in a family; ``still_valid`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnhal.types import ChannelQuant, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import SCALAR_TYPES, byte_size, is_scalar
from nnhal.types.memory import NOWHERE
from tests.support.mutations import (
    place,
    subgraphs,
    with_copied_zeros,
    with_further,
    with_graph,
    with_operand,
    with_operation,
    with_other,
    without,
)
from tests.support.valid_changes import (
    channel_dim_of,
    dispensable,
    may_take_an_integer_more,
    other_types,
    output_may_be_missing,
    unsettled,
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A model, and a description of what was changed."""

    what: str
    model: Model


def _mutation(number: int, at: str, what: str, model: Model) -> Mutation:
    return Mutation(f"{place(number, at)} {what}", model)


def readers_before_writers(model: Model) -> Iterator[Mutation]:
    """VM-01: a reader before its writer, or a writer after its reader."""
    for number, graph in enumerate(subgraphs(model)):
        for writer, reader in _flows(graph):
            operations = list(graph.operations)
            operations.insert(writer, operations.pop(reader))
            yield _with_operations(model, number, operations, f"operation {reader} comes before operation {writer}")
            operations = list(graph.operations)
            operations.insert(reader, operations.pop(writer))
            yield _with_operations(model, number, operations, f"operation {writer} comes after operation {reader}")


def second_writers(model: Model) -> Iterator[Mutation]:
    """VM-08: a copy of an operation writes one of its outputs again."""
    for number, graph in enumerate(subgraphs(model)):
        for operation in graph.operations:
            for kept in operation.outputs:
                end = len(graph.operands)
                results = [_temporary(graph.operands[index]) for index in operation.outputs if index != kept]
                fresh = iter(range(end, end + len(results)))
                outputs = tuple(index if index == kept else next(fresh) for index in operation.outputs)
                operations = [*graph.operations, replace(operation, outputs=outputs)]
                changed = with_further(model, number, *results)
                yield _with_operations(changed, number, operations, f"operand {kept} is written twice")


def diverted_results(model: Model) -> Iterator[Mutation]:
    """VM-13: an operand that is read has no writer, since the operation writes a new operand instead."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            for at, output in enumerate(operation.outputs):
                if _read(graph, output):
                    changed = with_further(model, number, _temporary(graph.operands[output]))
                    outputs = without(operation.outputs, at, len(graph.operands))
                    changed = with_operation(changed, index, number, outputs=outputs)
                    yield Mutation(place(number, f"operand {output} is not written"), changed)


def missing_operands(model: Model) -> Iterator[Mutation]:
    """VM-14: an operand that is read is removed; higher indexes stay, and so mean another operand or none."""
    for number, graph in enumerate(subgraphs(model)):
        for index in range(len(graph.operands)):
            if _read(graph, index) and not _can_do_without(graph, index):
                changed = with_graph(
                    model,
                    number,
                    operands=without(graph.operands, index),
                    operations=tuple(
                        replace(o, inputs=_less(o.inputs, index), outputs=_less(o.outputs, index))
                        for o in graph.operations
                    ),
                    input_indexes=_less(graph.input_indexes, index),
                    output_indexes=_less(graph.output_indexes, index),
                )
                yield Mutation(place(number, f"operand {index} is missing"), changed)


def missing_operations(model: Model) -> Iterator[Mutation]:
    """VM-15: an operation whose results are needed is removed."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            if any(_read(graph, output) or output in graph.output_indexes for output in operation.outputs):
                yield _with_operations(model, number, without(graph.operations, index), f"operation {index} is missing")


def _flows(graph: Subgraph) -> Iterator[tuple[int, int]]:
    """Yield the pairs of operations of which the second reads what the first writes."""
    for writer, operation in enumerate(graph.operations):
        for reader in range(writer + 1, len(graph.operations)):
            if set(operation.outputs) & set(graph.operations[reader].inputs):
                yield writer, reader


def _can_do_without(graph: Subgraph, index: int) -> bool:
    """Return whether the graph may still be valid without an operand, so that VM-14 does not apply.

    If nothing uses the last operand, it makes up for the missing one. The last operand itself may be dispensable.
    """
    if any(index in operation.outputs and output_may_be_missing(operation) for operation in graph.operations):
        return True
    last = len(graph.operands) - 1
    if index < last:
        return not any(last in (*operation.inputs, *operation.outputs) for operation in graph.operations)
    return all(
        all(dispensable(operation, at) for at, used in enumerate(operation.inputs) if used == index)
        for operation in graph.operations
    )


def _read(graph: Subgraph, index: int) -> bool:
    return any(index in operation.inputs for operation in graph.operations)


def _temporary(operand: Operand) -> Operand:
    return replace(operand, lifetime=OperandLifeTime.TEMPORARY_VARIABLE, location=NOWHERE)


def _less(indexes: tuple[int, ...], index: int) -> tuple[int, ...]:
    return tuple(i for i in indexes if i != index)


def _with_operations(model: Model, number: int, operations: Sequence[Operation], what: str) -> Mutation:
    return Mutation(place(number, what), with_graph(model, number, operations=tuple(operations)))


WITHOUT_SCALE = (
    *SCALAR_TYPES,
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    OperandType.SUBGRAPH,
)
WRONG_SCALES = {
    **dict.fromkeys(WITHOUT_SCALE, 1.0),
    OperandType.TENSOR_INT32: -1.0,
    OperandType.TENSOR_QUANT8_ASYMM: 0.0,
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: 0.0,
    OperandType.TENSOR_QUANT8_SYMM: 0.0,
    OperandType.TENSOR_QUANT16_ASYMM: 0.0,
    OperandType.TENSOR_QUANT16_SYMM: 0.0,
}
WRONG_ZERO_POINTS = {
    **dict.fromkeys((*WITHOUT_SCALE, OperandType.TENSOR_INT32), (1,)),
    OperandType.TENSOR_QUANT8_ASYMM: (-1, 256),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-129, 128),
    OperandType.TENSOR_QUANT8_SYMM: (-129, -1, 1, 128),
    OperandType.TENSOR_QUANT16_ASYMM: (-1, 65536),
    OperandType.TENSOR_QUANT16_SYMM: (-32769, -1, 1, 32768),
}


def no_types(model: Model) -> Iterator[Mutation]:
    """VM-02: a code that is not a type's."""
    for number, index, _ in _operands(model):
        yield from _with_changes(model, number, index, ({"type": -1}, {"type": max(OperandType) + 1}))


def ranked_scalars(model: Model) -> Iterator[Mutation]:
    """VM-03: scalars have no dimensions."""
    for number, index, code in _operands(model):
        if code in SCALAR_TYPES:
            yield from _with_changes(model, number, index, ({"dimensions": (0,)}, {"dimensions": (1,)}))


def wrong_scales(model: Model) -> Iterator[Mutation]:
    """VM-04: a scale that the type cannot have."""
    for number, index, code in _operands(model):
        yield from _with_changes(model, number, index, ({"scale": WRONG_SCALES[code]},))


def wrong_zero_points(model: Model) -> Iterator[Mutation]:
    """VM-05: a zero point that the type cannot have."""
    for number, index, code in _operands(model):
        yield from _with_changes(model, number, index, ({"zero_point": value} for value in WRONG_ZERO_POINTS[code]))


def _operands(model: Model) -> Iterator[tuple[int, int, OperandType]]:
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            yield number, index, OperandType(operand.type)


def _with_changes(model: Model, number: int, index: int, changes: Iterable[dict[str, Any]]) -> Iterator[Mutation]:
    for change in changes:
        changed = with_operand(model, index, number, **change)
        yield _mutation(number, f"operand {index}", f"has {change}", changed)


_MOST_BYTES = 32 << 10
"""The most bytes of constants in a model whose operands become constants: larger ones cost too much to copy."""
_TEMPORARY, _INPUT, _OUTPUT, _COPY, _POOL = (
    OperandLifeTime.TEMPORARY_VARIABLE,
    OperandLifeTime.SUBGRAPH_INPUT,
    OperandLifeTime.SUBGRAPH_OUTPUT,
    OperandLifeTime.CONSTANT_COPY,
    OperandLifeTime.CONSTANT_POOL,
)
_LISTED: dict[int, tuple[OperandLifeTime, ...]] = {
    **dict.fromkeys((_TEMPORARY, _OUTPUT), (_INPUT, _COPY)),
    **dict.fromkeys((_INPUT, _COPY, _POOL), (_TEMPORARY, _OUTPUT)),
}
_UNLISTED: dict[int, OperandLifeTime] = {
    _COPY: _INPUT,
    _POOL: _INPUT,
    _INPUT: _COPY,
    _OUTPUT: _TEMPORARY,
    _TEMPORARY: _OUTPUT,
}


def listed_otherwise(model: Model) -> Iterator[Mutation]:
    """VM-06: the lists match the lifetime, but an operand has a writer although it must not, or has none."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            for lifetime in _LISTED.get(operand.lifetime, ()):
                if _possible(model, operand):
                    changed = _with_lifetime(model, number, index, lifetime)
                    changed = _with_lists(changed, number, index, lifetime)
                    yield _mutation(number, f"operand {index}", f"has lifetime {lifetime.name}", changed)


def not_listed_otherwise(model: Model) -> Iterator[Mutation]:
    """VM-07: the lists match the previous lifetime."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            lifetime = _UNLISTED.get(operand.lifetime)
            if lifetime is not None and (lifetime != _COPY or _possible(model, operand)):
                changed = _with_lifetime(model, number, index, lifetime)
                yield _mutation(number, f"operand {index}", f"has lifetime {lifetime.name}", changed)


def _possible(model: Model, operand: Operand) -> bool:
    return len(model.operand_values) <= _MOST_BYTES and byte_size(operand.type, operand.dimensions) > 0


def _with_lifetime(model: Model, number: int, index: int, lifetime: OperandLifeTime) -> Model:
    operand = replace(subgraphs(model)[number].operands[index], lifetime=lifetime, location=NOWHERE)
    if lifetime == _COPY:
        model, operand = with_copied_zeros(model, operand)
    return with_other(model, number, index, operand)


def _with_lists(model: Model, number: int, index: int, lifetime: OperandLifeTime) -> Model:
    graph = subgraphs(model)[number]
    inputs, outputs = (
        (*(i for i in indexes if i != index), *((index,) if lifetime == kind else ()))
        for indexes, kind in ((graph.input_indexes, _INPUT), (graph.output_indexes, _OUTPUT))
    )
    return with_graph(model, number, input_indexes=inputs, output_indexes=outputs)


_CONSTANTS = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)
_ZERO_POINTS = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}
_SCALED = (*_ZERO_POINTS, OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM)


def types_refused(model: Model) -> Iterator[Mutation]:
    """VM-09: a type that the operation does not take. The operand itself is valid for its new type."""
    for number, index, code in _uses_of_other_types(model):
        if code not in other_types(model, number, index) and not unsettled(model, number, index, code):
            yield _with_type(model, number, index, code)


def types_accepted(model: Model) -> Iterator[Mutation]:
    """The exceptions of VM-09: types that all operations which use the operand also take."""
    for number, index, code in _uses_of_other_types(model):
        if code in other_types(model, number, index):
            yield _with_type(model, number, index, code)


def _uses_of_other_types(model: Model) -> Iterator[tuple[int, int, OperandType]]:
    for number, graph in enumerate(subgraphs(model)):
        used = {index for operation in graph.operations for index in (*operation.inputs, *operation.outputs)}
        for index in sorted(used):
            for code in OperandType:
                if code != graph.operands[index].type:
                    yield number, index, code


def _with_type(model: Model, number: int, index: int, code: OperandType) -> Mutation:
    operand = _as_type(subgraphs(model)[number].operands[index], code, channel_dim_of(model, number, index))
    if operand.lifetime in _CONSTANTS and code != OperandType.SUBGRAPH:
        model, operand = with_copied_zeros(model, operand)
    return _mutation(number, f"operand {index}", f"is {code.name}", with_other(model, number, index, operand))


def _as_type(operand: Operand, code: OperandType, channel_dim: int) -> Operand:
    """Return the operand with another type, and the nearest other properties that the type allows."""
    lifetime, location = operand.lifetime, operand.location
    if operand.type == OperandType.SUBGRAPH:
        lifetime, location = OperandLifeTime.CONSTANT_COPY, NOWHERE
    dimensions = () if is_scalar(code) or code == OperandType.SUBGRAPH else operand.dimensions
    needed = lifetime in _CONSTANTS and not is_scalar(code) and code != OperandType.SUBGRAPH
    if not dimensions and (needed or (is_scalar(operand.type) and not is_scalar(code))):
        dimensions = () if code == OperandType.SUBGRAPH else (1,)
    channels = None
    if code == OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        dimensions = dimensions or (1,)
        axis = channel_dim if channel_dim < len(dimensions) else 0
        dimensions = (*dimensions[:axis], dimensions[axis] or 1, *dimensions[axis + 1 :])
        channels = ChannelQuant((1.0,) * dimensions[axis], axis)
    low, high = _ZERO_POINTS.get(code, (0, 0))
    return replace(
        operand,
        type=code,
        dimensions=dimensions,
        scale=(operand.scale or 1.0) if code in _SCALED else operand.scale if code == OperandType.TENSOR_INT32 else 0.0,
        zero_point=min(max(operand.zero_point, low), high),
        lifetime=lifetime,
        location=location,
        extra_params=channels,
    )


def no_operations(model: Model) -> Iterator[Mutation]:
    """VM-10: a code that is not an operation's."""
    for number, index, _ in _operations(model):
        for code in (-1, max(OperationType) + 1):
            changed = with_operation(model, index, number, type=code)
            yield _mutation(number, f"operation {index}", f"has code {code}", changed)


def inputs_past_the_last(model: Model) -> Iterator[Mutation]:
    """VM-11: an input with an index beyond the last operand."""
    for number, index, operation in _operations(model):
        end = len(subgraphs(model)[number].operands)
        for at in range(len(operation.inputs)):
            changed = with_operation(model, index, number, inputs=without(operation.inputs, at, end))
            yield _mutation(number, f"operation {index}", f"reads operand {end} as input {at}", changed)


def outputs_past_the_last(model: Model) -> Iterator[Mutation]:
    """VM-12: an output with an index beyond the last operand."""
    for number, index, operation in _operations(model):
        end = len(subgraphs(model)[number].operands)
        for at in range(len(operation.outputs)):
            changed = with_operation(model, index, number, outputs=without(operation.outputs, at, end))
            yield _mutation(number, f"operation {index}", f"writes operand {end} as output {at}", changed)


def inputs_removed(model: Model) -> Iterator[Mutation]:
    """VM-16: one input too few."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.inputs)):
            if not dispensable(operation, at):
                yield _without_input(model, number, index, at)


def dispensable_inputs_removed(model: Model) -> Iterator[Mutation]:
    """The exceptions of VM-16: the operation is also valid without the input."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.inputs)):
            if dispensable(operation, at):
                yield _without_input(model, number, index, at)


def outputs_removed(model: Model) -> Iterator[Mutation]:
    """VM-17: one output too few, so that no operation writes its operand."""
    for number, index, operation in _operations(model):
        for at in range(len(operation.outputs)):
            changed = with_operation(model, index, number, outputs=without(operation.outputs, at))
            yield _mutation(number, f"operation {index}", f"has lost output {at}", changed)


def inputs_added(model: Model) -> Iterator[Mutation]:
    """VM-18: one input too many, an INT32 that is an input of the subgraph."""
    further = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    for number, index, operation in _operations(model):
        if not may_take_an_integer_more(operation):
            graph = subgraphs(model)[number]
            end = len(graph.operands)
            changed = with_graph(
                with_further(model, number, further), number, input_indexes=(*graph.input_indexes, end)
            )
            changed = with_operation(changed, index, number, inputs=(*operation.inputs, end))
            yield _mutation(number, f"operation {index}", "has one input more", changed)


def outputs_added(model: Model) -> Iterator[Mutation]:
    """VM-19: one output too many, an INT32 that is an output of the subgraph."""
    further = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    for number, index, operation in _operations(model):
        graph = subgraphs(model)[number]
        end = len(graph.operands)
        changed = with_graph(with_further(model, number, further), number, output_indexes=(*graph.output_indexes, end))
        changed = with_operation(changed, index, number, outputs=(*operation.outputs, end))
        yield _mutation(number, f"operation {index}", "has one output more", changed)


def _without_input(model: Model, number: int, index: int, at: int) -> Mutation:
    operation = subgraphs(model)[number].operations[index]
    changed = with_operation(model, index, number, inputs=without(operation.inputs, at))
    return _mutation(number, f"operation {index}", f"has lost input {at} of {len(operation.inputs)}", changed)


def _operations(model: Model) -> Iterator[tuple[int, int, Operation]]:
    for number, graph in enumerate(subgraphs(model)):
        for index, operation in enumerate(graph.operations):
            yield number, index, operation


Family = Callable[[Model], Iterator[Mutation]]
FAMILIES: dict[str, Family] = {
    "VM-01": readers_before_writers,
    "VM-02": no_types,
    "VM-03": ranked_scalars,
    "VM-04": wrong_scales,
    "VM-05": wrong_zero_points,
    "VM-06": listed_otherwise,
    "VM-07": not_listed_otherwise,
    "VM-08": second_writers,
    "VM-09": types_refused,
    "VM-10": no_operations,
    "VM-11": inputs_past_the_last,
    "VM-12": outputs_past_the_last,
    "VM-13": diverted_results,
    "VM-14": missing_operands,
    "VM-15": missing_operations,
    "VM-16": inputs_removed,
    "VM-17": outputs_removed,
    "VM-18": inputs_added,
    "VM-19": outputs_added,
}
"""Each family of mutations, by its row."""


def still_valid(model: Model) -> Iterator[Mutation]:
    """Yield changes like those of VM-09 and VM-16 that must be accepted, since the operation allows them."""
    yield from types_accepted(model)
    yield from dispensable_inputs_removed(model)
