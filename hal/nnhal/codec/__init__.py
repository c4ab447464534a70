"""Conversion between the messages of the wire (nnhal.v1) and the contract's own types.

A descriptor is an id on the wire: encoding asks ``issue`` for the id of a descriptor, decoding asks ``resolve`` for the
descriptor of an id. Decoding checks the form only; nnhal.validation has the rules.
"""

from nnhal.codec.capabilities import (
    capabilities_from_wire,
    capabilities_to_wire,
    extensions_from_wire,
    extensions_to_wire,
)
from nnhal.codec.errors import abort_status, error_from_rpc
from nnhal.codec.memory import Issue, Resolve, memory_from_wire, memory_to_wire
from nnhal.codec.model import graphs_to_wire, model_from_wire, model_to_wire
from nnhal.codec.nanoseconds import deadline_after, nanoseconds
from nnhal.codec.request import (
    config_from_wire,
    config_to_wire,
    copies_from_wire,
    copies_to_wire,
    info_from_wire,
    info_to_wire,
    request_from_wire,
    request_to_wire,
    result_from_wire,
    result_to_wire,
    span_from_wire,
    span_to_wire,
    staging_to_wire,
)

__all__ = [
    "Issue",
    "Resolve",
    "abort_status",
    "capabilities_from_wire",
    "capabilities_to_wire",
    "config_from_wire",
    "config_to_wire",
    "copies_from_wire",
    "copies_to_wire",
    "deadline_after",
    "error_from_rpc",
    "extensions_from_wire",
    "extensions_to_wire",
    "graphs_to_wire",
    "info_from_wire",
    "info_to_wire",
    "memory_from_wire",
    "memory_to_wire",
    "model_from_wire",
    "model_to_wire",
    "nanoseconds",
    "request_from_wire",
    "request_to_wire",
    "result_from_wire",
    "result_to_wire",
    "span_from_wire",
    "span_to_wire",
    "staging_to_wire",
]
