"""The parameters of a request that the protocol has a meaning for, whatever the front."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nnhal_service.serving.request import Parameter
from nnhal_service.v2.tensors import count, refuse

PRIORITY, TIMEOUT = "priority", "timeout"
SEQUENCE_FLAGS = ("sequence_start", "sequence_end")
_RESERVED_PREFIX = "triton_"
_NS_PER_US = 1000
_LONGEST_NS = 1 << 62
"""146 years: a deadline after so long still fits into the HAL's 64 bits."""


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """Those of a request; ``others`` are for the model."""

    priority: int
    timeout_ns: int
    others: Mapping[str, Parameter]


def request_parameters(given: Mapping[str, Parameter], flags: Collection[str] = ()) -> RequestParameters:
    """``flags`` are true or false and for the front itself.

    Raises INVALID_ARGUMENT for a reserved name, or a value of another type than its name demands.
    """
    others = {}
    for key, value in given.items():
        if (key in flags or key in SEQUENCE_FLAGS) and not isinstance(value, bool):
            raise refuse(f"parameter '{key}' is {value!r}, expected true or false")
        if key in (PRIORITY, TIMEOUT) or key in flags:
            continue
        if key.startswith(_RESERVED_PREFIX):
            raise refuse(f"parameter '{key}': names that begin with '{_RESERVED_PREFIX}' are reserved")
        others[key] = value
    timeout_ns = min(count(given, TIMEOUT) * _NS_PER_US, _LONGEST_NS)
    return RequestParameters(count(given, PRIORITY), timeout_ns, others)
