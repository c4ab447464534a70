"""The dimensions of inputs in one run, as messages beside those of the HAL carry them: there a 0 is an empty axis."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.codec.bounds import MAX_ARGUMENTS, at_most
from nnhal.errors import invalid_argument
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2 as wire

Lengths = Sequence[tuple[int, Dimensions]]
"""The dimensions of some inputs, by their positions."""
_MOST = 2**31 - 1


def lengths_to_wire(lengths: Lengths) -> list[wire.InputLengths]:
    return [wire.InputLengths(input=position, dimensions=dimensions) for position, dimensions in lengths]


def lengths_from_wire(messages: Sequence[wire.InputLengths]) -> Lengths:
    """Decode the dimensions of inputs. Raises INVALID_ARGUMENT if one is named twice, or a length is too large."""
    found = {m.input: tuple(m.dimensions) for m in at_most(MAX_ARGUMENTS, messages, "lengths of inputs")}
    if len(found) != len(messages):
        invalid_argument("lengths of one input twice, expected once")
    for position, dimensions in found.items():
        if max(dimensions, default=0) > _MOST:
            invalid_argument(f"input {position} has lengths {list(dimensions)}, expected at most {_MOST} each")
    return tuple(found.items())
