"""Operands whose lifetime contradicts their writers or the lists of inputs and outputs: VM-06 and VM-07."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnhal.types import Model, Operand, OperandLifeTime
from nnhal.types.layout import byte_size
from nnhal.types.memory import NOWHERE
from tests.support.model_mutations.mutation import Mutation, place, with_copied_zeros, with_other
from tests.support.mutations import subgraphs, with_graph

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


def listed(model: Model) -> Iterator[Mutation]:
    """VM-06: the lists match the lifetime, but an operand has a writer although it must not, or has none."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            for lifetime in _LISTED.get(operand.lifetime, ()):
                if _possible(model, operand):
                    changed = _with_lifetime(model, number, index, lifetime)
                    yield _mutation(_with_lists(changed, number, index, lifetime), number, index, lifetime)


def unlisted(model: Model) -> Iterator[Mutation]:
    """VM-07: the lists match the previous lifetime."""
    for number, graph in enumerate(subgraphs(model)):
        for index, operand in enumerate(graph.operands):
            lifetime = _UNLISTED.get(operand.lifetime)
            if lifetime is not None and (lifetime != _COPY or _possible(model, operand)):
                yield _mutation(_with_lifetime(model, number, index, lifetime), number, index, lifetime)


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


def _mutation(model: Model, number: int, index: int, lifetime: OperandLifeTime) -> Mutation:
    return Mutation(f"{place(number, f'operand {index}')} has lifetime {lifetime.name}", model)
