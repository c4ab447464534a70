"""Element types as the configuration has them: the protocol's, but that BYTES are TYPE_STRING."""

from __future__ import annotations

import numpy as np

from nnhal.inference import model_config_pb2 as wire
from nnhal.inference.datatypes import BYTES, DATATYPES, Datatype
from nnhal_service.serving.errors import ErrorKind, ServingError

_BY_CODE: dict[int, Datatype] = {
    wire.DataType.Value("TYPE_STRING" if kind is BYTES else f"TYPE_{name}"): kind for name, kind in DATATYPES.items()
}
_BY_DTYPE = {kind.dtype: wire.DataType.ValueType(code) for code, kind in _BY_CODE.items()}


def data_type_of(element_type: np.dtype[np.generic], name: str) -> wire.DataType.ValueType:
    """The configuration's type of a tensor. Raises UNSUPPORTED where the protocol has none for its elements."""
    if element_type not in _BY_DTYPE:
        message = f"{name!r} has elements of {element_type.name}, for which the protocol has no type"
        raise ServingError(ErrorKind.UNSUPPORTED, message)
    return _BY_DTYPE[element_type]


def datatype_of(data_type: wire.DataType.ValueType) -> Datatype:
    """The protocol's type; ``data_type`` is one that ``data_type_of`` has given."""
    return _BY_CODE[data_type]


def type_name(data_type: wire.DataType.ValueType) -> str:
    """As the configuration spells it; the number where it has no name."""
    return wire.DataType.Name(data_type) if data_type in wire.DataType.values() else str(data_type)
