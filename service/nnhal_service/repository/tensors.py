"""The inputs and outputs of a loaded model, as its configuration has them."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.frontends.imported import ImportedTensor
from nnhal_service.repository.datatypes import data_type_of
from nnhal_service.runtime import PreparedPlan

OPEN = -1
Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An input or output. ``shape`` is that of the model, with -1 for an open axis; None where nothing is known."""

    name: str
    data_type: wire.DataType.ValueType
    shape: Dims | None


def inputs_of(prepared: PreparedPlan) -> list[ModelTensor]:
    """The inputs. Raises UNSUPPORTED for elements that the protocol has no type for."""
    return [_tensor(prepared, tensor) for tensor in prepared.imported.inputs]


def outputs_of(prepared: PreparedPlan) -> list[ModelTensor]:
    """The outputs. Raises as ``inputs_of``."""
    return [_tensor(prepared, tensor) for tensor in prepared.imported.outputs]


def _tensor(prepared: PreparedPlan, tensor: ImportedTensor) -> ModelTensor:
    return ModelTensor(tensor.name, data_type_of(tensor.element_type, tensor.name), _shape(prepared, tensor))


def _shape(prepared: PreparedPlan, tensor: ImportedTensor) -> Dims | None:
    """What the model says, with what is known of the operand besides; that of a scalar has one element."""
    if tensor.element_type.hasobject:
        return _opened(tensor.shape) if tensor.shape else None
    known = prepared.dimensions[tensor.operand]
    if not tensor.shape:
        if known == (1,):
            return ()
        return _opened(known) if known else None
    if len(known) == len(tensor.shape):
        return _opened(tuple(own or other for own, other in zip(tensor.shape, known, strict=True)))
    return _opened(tensor.shape)


def _opened(dimensions: Dims) -> Dims:
    return tuple(length or OPEN for length in dimensions)
