"""Models of the HAL that a client sends instead of a file."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from nnhal.codec import Resolve, model_from_wire
from nnhal.memory import CopyBudget, read_pools
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import Model, Subgraph
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.v1 import model_pb2
from nnhal.validation import validate_dimensions, validate_model
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_service.native.omitted_arguments import without_trailing_defaults


@dataclass(frozen=True, slots=True)
class HalModel:
    """A valid model in execution order. ``order`` has the client's index of each operation of main."""

    model: Model
    order: tuple[int, ...]


def hal_model_from_wire(message: model_pb2.Model, resolve: Resolve, copies: CopyBudget | None = None) -> HalModel:
    """Decode and validate a model, as devices will see it. The client may list operations in any order.

    Raises INVALID_ARGUMENT, and as ``read_pools`` if constants cannot be read or do not fit ``copies``.
    """
    model, order = check_rules(message, resolve)
    resolved = ResolvedModel(model, inline_constants(model, read_pools(model.pools, copies=copies)))
    validate_dimensions(resolved)
    return HalModel(without_trailing_defaults(resolved), order)


def check_rules(message: model_pb2.Model, resolve: Resolve) -> tuple[Model, tuple[int, ...]]:
    """Decode a model and check it by the rules that need no values. Return it, and its order, as ``HalModel`` has them.

    Raises INVALID_ARGUMENT.
    """
    model = model_from_wire(message, resolve)
    order = _execution_order(model.main)
    model = replace(
        model,
        main=_ordered(model.main, order),
        referenced=tuple(_ordered(graph, _execution_order(graph)) for graph in model.referenced),
    )
    validate_model(model)
    return model, order


def content_of(message: model_pb2.Model, given: HalModel) -> bytes:
    """Return bytes that differ if the model or anything in its pools does. Raises as reading pools does."""
    plain = model_pb2.Model()
    plain.CopyFrom(message)
    plain.ClearField("pools")
    pools = read_pools(given.model.pools)
    digests = (sha256(pools[index].tobytes()).digest() for index in sorted(pools))
    return b"".join((sha256(plain.SerializeToString(deterministic=True)).digest(), *digests))


def import_hal_model(given: HalModel) -> ImportedModel:
    """Name inputs ``input0`` and so on, outputs ``output0``, and operations ``operation0`` by the client's indexes."""
    graph = given.model.main
    inputs = tuple(_tensor(graph, f"input{number}", operand) for number, operand in enumerate(graph.input_indexes))
    outputs = tuple(_tensor(graph, f"output{number}", operand) for number, operand in enumerate(graph.output_indexes))
    names = {tensor.operand: tensor.name for tensor in (*inputs, *outputs)}
    return ImportedModel(
        given.model,
        inputs,
        outputs,
        tuple((f"operation{index}",) for index in given.order),
        (),
        tuple(names.get(index, "") for index in range(len(graph.operands))),
        operation_places=tuple((index,) for index in given.order),
        node_count=len(given.order),
    )


def _tensor(graph: Subgraph, name: str, operand: int) -> ImportedTensor:
    described = graph.operands[operand]
    element = ELEMENT_TYPES.get(described.type, np.dtype(np.uint8))
    return ImportedTensor(name, operand, element, described.dimensions)


def _execution_order(graph: Subgraph) -> tuple[int, ...]:
    """Order operations so that each comes after those whose results it reads; as listed if they form a cycle."""
    writers = {operand: number for number, operation in enumerate(graph.operations) for operand in operation.outputs}
    needs = [{writers[i] for i in operation.inputs if i in writers} for operation in graph.operations]
    readers: dict[int, list[int]] = {}
    for number, needed in enumerate(needs):
        for writer in needed:
            readers.setdefault(writer, []).append(number)
    missing = [len(needed) for needed in needs]
    ready = [number for number, count in enumerate(missing) if not count]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers.get(number, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return tuple(order) if len(order) == len(needs) else tuple(range(len(needs)))


def _ordered(graph: Subgraph, order: tuple[int, ...]) -> Subgraph:
    return replace(graph, operations=tuple(graph.operations[number] for number in order))
