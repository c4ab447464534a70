"""The inputs and outputs of a loaded model and their element types, as its configuration has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nnhal.inference import model_config_pb2 as wire
from nnhal.inference.datatypes import BYTES, DATATYPES, Datatype
from nnhal_frontends.imported import ImportedTensor
from nnhal_service.runtime import PreparedPlan
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.signature import optional_inputs

UNKNOWN = -1
"""The length of an unknown dimension in a configuration."""
Dims = tuple[int, ...]
# The protocol's datatypes, except that BYTES is called TYPE_STRING here.
_BY_CODE: dict[int, Datatype] = {
    wire.DataType.Value("TYPE_STRING" if kind is BYTES else f"TYPE_{name}"): kind for name, kind in DATATYPES.items()
}
_BY_DTYPE = {kind.dtype: wire.DataType.ValueType(code) for code, kind in _BY_CODE.items()}


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An input or output. ``shape`` is the model's, with -1 for an unknown dimension; None if the rank is unknown."""

    name: str
    data_type: wire.DataType.ValueType
    shape: Dims | None
    optional: bool = False
    """True if it is an input that has a default."""


def inputs_of(prepared: PreparedPlan) -> list[ModelTensor]:
    """Return the inputs. Raises UNSUPPORTED if the protocol has no type for their elements."""
    return [_tensor(prepared, tensor) for tensor in prepared.imported.inputs]


def optional_inputs_of(prepared: PreparedPlan, config: wire.ModelConfig) -> list[ModelTensor]:
    """Return the inputs that requests may leave out."""
    found = optional_inputs(prepared, config.max_batch_size > 0, config.HasField("sequence_batching"))
    return [ModelTensor(t.name, _BY_DTYPE[t.element_type], _with_unknown(t.shape), optional=True) for t in found]


def outputs_of(prepared: PreparedPlan, has_batches: bool = False) -> list[ModelTensor]:
    """Return the outputs. Raises as ``inputs_of``.

    A model that ``has_batches`` and a state is prepared for one item: what it computes of the state has a first axis of
    length 1, which is the batch.
    """
    outputs = [_tensor(prepared, tensor) for tensor in prepared.imported.outputs]
    if not (has_batches and prepared.imported.states):
        return outputs
    return [replace(t, shape=(UNKNOWN, *t.shape[1:])) if t.shape and t.shape[0] == 1 else t for t in outputs]


def states_of(prepared: PreparedPlan) -> list[tuple[ModelTensor, str]]:
    """Return what the model carries from run to run, each with the name of the output that it becomes."""
    return [(_tensor(prepared, state.before), state.after.name) for state in prepared.imported.states]


def _tensor(prepared: PreparedPlan, tensor: ImportedTensor) -> ModelTensor:
    if tensor.kind:
        message = f"{tensor.name!r} is {tensor.kind}, for which the protocol has no type, expected a tensor"
        raise ServingError(ErrorKind.UNSUPPORTED, message)
    return ModelTensor(tensor.name, data_type_of(tensor.element_type, tensor.name), _shape(prepared, tensor))


def _shape(prepared: PreparedPlan, tensor: ImportedTensor) -> Dims | None:
    """Combine the shape that the model states with what is known of the operand; the operand of a scalar has rank 1."""
    if tensor.element_type.hasobject:
        return _with_unknown(tensor.shape) if tensor.shape else None
    known = prepared.dimensions[tensor.operand]
    if not tensor.shape:
        if known == (1,):
            return ()
        return _with_unknown(known) if known else None
    if len(known) == len(tensor.shape):
        return _with_unknown(tuple(own or other for own, other in zip(tensor.shape, known, strict=True)))
    return _with_unknown(tensor.shape)


def _with_unknown(dimensions: Dims) -> Dims:
    return tuple(length or UNKNOWN for length in dimensions)


def data_type_of(element_type: np.dtype[np.generic], name: str) -> wire.DataType.ValueType:
    """Return the configuration's type of a tensor. Raises UNSUPPORTED if the protocol has none for its elements."""
    if element_type not in _BY_DTYPE:
        message = f"{name!r} has elements of {element_type.name}, for which the protocol has no type"
        raise ServingError(ErrorKind.UNSUPPORTED, message)
    return _BY_DTYPE[element_type]


def datatype_of(data_type: wire.DataType.ValueType) -> Datatype:
    """Return the protocol's type; ``data_type`` is one that ``data_type_of`` has returned."""
    return _BY_CODE[data_type]


def type_name(data_type: wire.DataType.ValueType) -> str:
    """Return the name of a type in configurations, or its number if it has no name."""
    return wire.DataType.Name(data_type) if data_type in wire.DataType.values() else str(data_type)
