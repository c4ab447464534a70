"""An imported model with channels last, as devices want it that take no images with their channels first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.layouts import ChannelsLast, channels_last, simplified
from nnhal.memory import create_read_only
from nnhal.resolved import ResolvedModel
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, OperationType, Subgraph
from nnhal.types.orders import TO_FIRST, TO_LAST
from nnhal_frontends.imported import ImportedModel, ImportedTensor

_LARGEST_INLINE = 128
"""Bytes of a constant in the message to a device; larger ones lie in a pool, which is in memory once."""
_ALIGNMENT = 64
"""The alignment of constants in a pool, in bytes."""
_WORDS = {TO_LAST: ("channels first", "channels last"), TO_FIRST: ("channels last", "channels first")}
"""What a transposition reads and writes, by its axes."""
_OTHER_WORDS = ("before its transposition", "transposed")


@dataclass(frozen=True, slots=True)
class ConvertedModel:
    imported: ImportedModel
    """It has the same inputs and outputs, with the same dimensions. Operands and operations have other numbers."""
    origins: tuple[int | None, ...]
    """For each operation of main, its number in the original model; None for one that was added."""


def with_channels_last(imported: ImportedModel) -> ConvertedModel | None:
    """Convert a model; None if it has no operation with channels first, or contradicts itself."""
    resolved = imported.resolved()
    try:
        converted = channels_last(resolved)
    except HalError:  # devices refuse what contradicts itself, with their reasons
        return None
    if converted.model is resolved:
        return None
    converted = simplified(converted)
    before, after = imported.model.main, converted.model.model.main
    moved = dict(zip(before.input_indexes, after.input_indexes, strict=True))
    moved.update(zip(before.output_indexes, after.output_indexes, strict=True))
    places = imported.operation_places
    origins = converted.origins

    def tensor(given: ImportedTensor) -> ImportedTensor:
        return replace(given, operand=moved[given.operand])

    states = [replace(each, before=tensor(each.before), after=tensor(each.after)) for each in imported.states]

    return ConvertedModel(
        replace(
            imported,
            model=_in_pool(converted.model),
            inputs=tuple(map(tensor, imported.inputs)),
            outputs=tuple(map(tensor, imported.outputs)),
            operation_nodes=tuple(() if n is None else imported.operation_nodes[n] for n in origins),
            operation_places=tuple(() if n is None else places[n] for n in origins) if places else (),
            operand_names=_operand_names(converted),
            states=tuple(states),
            source=None,  # the file has channels first
        ),
        origins,
    )


def _operand_names(converted: ChannelsLast) -> tuple[str, ...]:
    """The names of values. Of a value that lies in memory in two orders of axes, one has a name that says which."""
    names, main = dict(converted.model.names), converted.model.model.main
    for operation, origin in zip(main.operations, converted.origins, strict=True):
        if origin is None and operation.type == OperationType.TRANSPOSE:
            (source, axes), (result,) = operation.inputs, operation.outputs
            before, after = _WORDS.get(tuple(converted.model.constants[0][axes].tolist()), _OTHER_WORDS)
            other, words = (source, before) if result in main.output_indexes else (result, after)
            if names.get(source) and names.get(source) == names.get(result):
                names[other] = f"{names[other]} ({words})"
    return tuple(names.get(index, "") for index in range(len(main.operands)))


def _in_pool(resolved: ResolvedModel) -> Model:
    """The model with the large constants of main, which the conversion has put into it, in a pool of their own."""
    model, constants = resolved.model, resolved.constants[0]
    operands, contents, end = list(model.main.operands), list[tuple[int, Array]](), 0
    for index, operand in enumerate(operands):
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY and operand.location.length > _LARGEST_INLINE:
            start = end + -end % _ALIGNMENT
            raw = np.ascontiguousarray(constants[index]).reshape(-1).view(np.uint8)
            contents.append((start, raw))
            end = start + len(raw)
            operands[index] = _pooled(operand, DataLocation(len(model.pools), start, len(raw)))
    if not contents:
        return model
    main, values = _packed(replace(model.main, operands=tuple(operands)), model)
    pool = create_read_only(contents, end, "nnhal-constants")
    return replace(model, main=main, operand_values=values, pools=(*model.pools, pool))


def _pooled(operand: Operand, location: DataLocation) -> Operand:
    return replace(operand, lifetime=OperandLifeTime.CONSTANT_POOL, location=location)


def _packed(main: Subgraph, model: Model) -> tuple[Subgraph, bytes]:
    """Main, and the values of those constants that are still inline; subgraphs keep theirs where they are."""
    if model.referenced:
        return main, model.operand_values
    operands, values = list(main.operands), bytearray()
    for index, operand in enumerate(operands):
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY:
            values.extend(bytes(-len(values) % 4))
            start, length = operand.location.offset, operand.location.length
            operands[index] = replace(operand, location=DataLocation(0, len(values), length))
            values.extend(model.operand_values[start : start + length])
    return replace(main, operands=tuple(operands)), bytes(values)
