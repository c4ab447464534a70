"""Conversion of models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nnhal.codec.bounds import MAX_HINTS, MAX_POOLS, at_most
from nnhal.codec.memory import Issue, Resolve, location_from_wire, location_to_wire, memory_from_wire, memory_to_wire
from nnhal.types import (
    ChannelQuant,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.types.memory import NOWHERE
from nnhal.v1 import model_pb2 as wire
from nnhal.v1 import types_pb2

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_OPERAND_TYPES = {code.value: code for code in OperandType}
_OPERATION_TYPES = {code.value: code for code in OperationType}
_LIFETIMES = {code.value: code for code in OperandLifeTime}
_NOWHERE = location_to_wire(NOWHERE)
"""That of most operands. What it is put into has a copy."""


def model_to_wire(model: Model, issue: Issue, graphs: bytes | None = None) -> wire.Model:
    """Encode a model. ``graphs`` is what ``graphs_to_wire`` gave for it, if it has been encoded before."""
    message = _graphs_to_wire(model) if graphs is None else wire.Model.FromString(graphs)
    message.pools.extend(memory_to_wire(pool, issue) for pool in model.pools)
    return message


def graphs_to_wire(model: Model) -> bytes:
    """Encode a model without its pools, which have other descriptors for each device that it is sent to."""
    return _graphs_to_wire(model).SerializeToString()


def _graphs_to_wire(model: Model) -> wire.Model:
    message = wire.Model(
        operand_values=model.operand_values,
        relax_computation_float32_to_float16=model.relax_computation_float32_to_float16,
        extension_name_to_prefix=extension_names_to_wire(model.extension_name_to_prefix),
    )
    message.main.SetInParent()
    _subgraph_to_wire(model.main, message.main)
    for graph in model.referenced:
        _subgraph_to_wire(graph, message.referenced.add())
    return message


def model_from_wire(message: wire.Model, resolve: Resolve) -> Model:
    """Decode a model. Codes that the HAL does not know are kept as they are. Raises INVALID_ARGUMENT."""
    return Model(
        _subgraph_from_wire(message.main),
        tuple(_subgraph_from_wire(graph) for graph in message.referenced),
        message.operand_values,
        tuple(memory_from_wire(pool, resolve) for pool in at_most(MAX_POOLS, message.pools, "pools of the model")),
        message.relax_computation_float32_to_float16,
        extension_names_from_wire(message.extension_name_to_prefix),
    )


def extension_names_to_wire(names: Iterable[ExtensionNameAndPrefix]) -> list[types_pb2.ExtensionNameAndPrefix]:
    return [types_pb2.ExtensionNameAndPrefix(name=entry.name, prefix=entry.prefix) for entry in names]


def extension_names_from_wire(
    messages: Sequence[types_pb2.ExtensionNameAndPrefix],
) -> tuple[ExtensionNameAndPrefix, ...]:
    """Decode an extension map. Raises INVALID_ARGUMENT if it has too many entries."""
    entries = at_most(MAX_HINTS, messages, "extensions")
    return tuple(ExtensionNameAndPrefix(message.name, message.prefix) for message in entries)


def _subgraph_to_wire(graph: Subgraph, message: wire.Subgraph) -> None:
    """Encode a subgraph in its place, since a message that is put into another one is copied."""
    for operand in graph.operands:
        _operand_to_wire(operand, message.operands)
    for operation in graph.operations:
        code: Any = operation.type  # a number, for which the stubs have a type of their own
        message.operations.add(type=code, inputs=operation.inputs, outputs=operation.outputs)
    message.input_indexes.extend(graph.input_indexes)
    message.output_indexes.extend(graph.output_indexes)


def _subgraph_from_wire(message: wire.Subgraph) -> Subgraph:
    return Subgraph(
        tuple(_operand_from_wire(operand) for operand in message.operands),
        tuple(
            Operation(_OPERATION_TYPES.get(o.type, o.type), tuple(o.inputs), tuple(o.outputs))
            for o in message.operations
        ),
        tuple(message.input_indexes),
        tuple(message.output_indexes),
    )


def _operand_to_wire(operand: Operand, messages: RepeatedCompositeFieldContainer[wire.Operand]) -> None:
    params = None
    if isinstance(operand.extra_params, ChannelQuant):
        quant = operand.extra_params
        params = wire.OperandExtraParams(
            channel_quant=wire.SymmPerChannelQuantParams(scales=quant.scales, channel_dim=quant.channel_dim)
        )
    elif operand.extra_params is not None:
        params = wire.OperandExtraParams(extension=operand.extra_params)
    code: Any = operand.type  # numbers, as above
    lifetime: Any = operand.lifetime
    messages.add(
        type=code,
        dimensions=operand.dimensions,
        scale=operand.scale,
        zero_point=operand.zero_point,
        lifetime=lifetime,
        location=_NOWHERE if operand.location is NOWHERE else location_to_wire(operand.location),
        extra_params=params,
    )


def _operand_from_wire(message: wire.Operand) -> Operand:
    params: ChannelQuant | bytes | None = None
    kind = message.extra_params.WhichOneof("params")
    if kind == "channel_quant":
        quant = message.extra_params.channel_quant
        params = ChannelQuant(tuple(quant.scales), quant.channel_dim)
    elif kind == "extension":
        params = message.extra_params.extension
    return Operand(
        _OPERAND_TYPES.get(message.type, message.type),
        tuple(message.dimensions),
        message.scale,
        message.zero_point,
        _LIFETIMES.get(message.lifetime, message.lifetime),
        location_from_wire(message.location),
        params,
    )
