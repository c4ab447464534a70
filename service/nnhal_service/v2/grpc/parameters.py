"""Parameters of requests, responses and tensors."""

from __future__ import annotations

from collections.abc import ItemsView
from typing import Protocol, cast

from nnhal.inference.grpc_service_pb2 import InferParameter
from nnhal_service.serving.request import Parameter
from nnhal_service.v2 import parameters
from nnhal_service.v2.parameters import PRIORITY, SEQUENCE_FLAGS, TIMEOUT, RequestParameters
from nnhal_service.v2.tensors import refuse

_EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
_INTEGER, _BOOL = ("int64_param", "uint64_param"), ("bool_param",)
_TYPES = {
    "sequence_id": (*_INTEGER, "string_param"),
    **dict.fromkeys(SEQUENCE_FLAGS, _BOOL),
    PRIORITY: _INTEGER,
    TIMEOUT: _INTEGER,
    _EMPTY_FINAL_RESPONSE: _BOOL,
}
"""The types of the parameters that the protocol has a meaning for."""
_NONE = RequestParameters(0, 0, {})


class ParameterMap(Protocol):
    """A map of parameters in a message."""

    def items(self) -> ItemsView[str, InferParameter]: ...

    def __len__(self) -> int: ...


def request_parameters(message: ParameterMap) -> RequestParameters:
    """Raises INVALID_ARGUMENT for a reserved name, or a value of another type than its name demands."""
    if not len(message):
        return _NONE
    given = {key: _value(key, parameter, _TYPES.get(key)) for key, parameter in message.items()}
    return parameters.request_parameters(given, (_EMPTY_FINAL_RESPONSE,))


def parameters_from_wire(message: ParameterMap) -> dict[str, Parameter]:
    """Those of a tensor. Raises INVALID_ARGUMENT for one without a value."""
    return {key: _value(key, parameter, None) for key, parameter in message.items()} if len(message) else {}


def set_parameter(message: InferParameter, value: Parameter) -> None:
    """Write a value."""
    if isinstance(value, bool):
        message.bool_param = value
    elif isinstance(value, int):
        if value >= 2**63:
            message.uint64_param = value
        else:
            message.int64_param = value
    elif isinstance(value, float):
        message.double_param = value
    else:
        message.string_param = value


def _value(key: str, parameter: InferParameter, types: tuple[str, ...] | None) -> Parameter:
    choice = parameter.WhichOneof("parameter_choice")
    if choice is None:
        raise refuse(f"parameter '{key}' has no value")
    if types is not None and choice not in types:
        raise refuse(f"invalid value type for '{key}' parameter, expected {' or '.join(types)}, got {choice}")
    return cast(Parameter, getattr(parameter, choice))
