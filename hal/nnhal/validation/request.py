"""Rules about requests to a prepared model (contract rows RQ-01 to RQ-17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnhal.errors import invalid_argument
from nnhal.memory.pool import is_blob_or_flat, validate_pool
from nnhal.types import ExtensionNameAndPrefix, Model, Operand, Request, RequestArgument, TokenValuePair
from nnhal.types.layout import (
    MAX_RANK,
    Dimensions,
    byte_size,
    combine,
    describe,
    fully_specified,
    is_extension,
    is_scalar,
)
from nnhal.types.memory import NOWHERE


@dataclass(frozen=True, slots=True)
class RequestShape:
    """The dimensions of model and request combined, for each input and output. Outputs may still have unknown ones."""

    inputs: tuple[Dimensions, ...]
    outputs: tuple[Dimensions, ...]


def validate_request(model: Model, request: Request, allow_unspecified_output: bool = True) -> RequestShape:
    """Check a request against the model. Fenced executions do not allow outputs of unknown size."""
    sizes = [
        _token(pool, index) if isinstance(pool, int) else validate_pool(pool, f"pool {index} of the request")
        for index, pool in enumerate(request.pools)
    ]
    flat = [not isinstance(pool, int) and is_blob_or_flat(pool) for pool in request.pools]

    def check(indexes: Sequence[int], arguments: Sequence[RequestArgument], what: str) -> tuple[Dimensions, ...]:
        if len(indexes) != len(arguments):
            invalid_argument(f"the request has {len(arguments)} {what}s, the model has {len(indexes)}")
        return tuple(
            _argument(
                model.main.operands[operand], argument, sizes, flat, f"{what} {number}", what, allow_unspecified_output
            )
            for number, (operand, argument) in enumerate(zip(indexes, arguments, strict=True))
        )

    return RequestShape(
        check(model.main.input_indexes, request.inputs, "input"),
        check(model.main.output_indexes, request.outputs, "output"),
    )


def _token(token: int, index: int) -> int:
    if token <= 0:
        invalid_argument(f"pool {index} of the request is the device token {token}, expected more than 0")
    return 0


def _argument(
    operand: Operand,
    argument: RequestArgument,
    sizes: Sequence[int],
    flat: Sequence[bool],
    place: str,
    what: str,
    allow_unspecified_output: bool,
) -> Dimensions:
    if argument.has_no_value:
        if argument.location != NOWHERE or argument.dimensions:
            invalid_argument(
                f"{place} has no value but has location ({argument.location}) and dimensions "
                f"{list(argument.dimensions)}"
            )
        return operand.dimensions
    location = argument.location
    if min(location.pool_index, location.offset, location.length, location.padding) < 0:
        invalid_argument(f"{place} has a negative number in its location ({location})")
    if location.pool_index >= len(sizes):
        invalid_argument(f"{place} lies in pool {location.pool_index}, but there are {len(sizes)} pools")
    if argument.varies and (what != "input" or flat[location.pool_index]):
        invalid_argument(f"{place} varies, expected that of inputs in a device's own memory only")
    dimensions = _dimensions(operand, argument, place, what, allow_unspecified_output)
    if not flat[location.pool_index]:
        if (location.offset, location.length, location.padding) != (0, 0, 0):
            invalid_argument(f"{place} uses a pool as a whole, expected offset, length and padding 0")
        return dimensions
    if location.length == 0:
        invalid_argument(f"{place} has length 0")
    end = location.offset + location.length + location.padding
    if end > sizes[location.pool_index]:
        invalid_argument(
            f"{place} lies at bytes {location.offset} to {end} of pool {location.pool_index}, "
            f"which has {sizes[location.pool_index]}"
        )
    size = byte_size(operand.type, dimensions) if not is_extension(operand.type) else 0
    if size and location.length != size:
        invalid_argument(f"{place} has {location.length} bytes, expected {size} for {describe(dimensions)}")
    return dimensions


def _dimensions(
    operand: Operand, argument: RequestArgument, place: str, what: str, allow_unspecified_output: bool
) -> Dimensions:
    given = argument.dimensions
    if len(given) > MAX_RANK:
        invalid_argument(f"{place} has rank {len(given)}, expected at most {MAX_RANK}")
    if min(given, default=0) < 0:
        invalid_argument(f"{place} has dimensions {list(given)}, expected 0 or more for each axis")
    if is_scalar(operand.type) and given:
        invalid_argument(f"{place} is a scalar with dimensions {describe(given)}, expected none")
    combined = combine(operand.dimensions, given)
    if combined is None:
        invalid_argument(f"{place} has dimensions {describe(given)}, the model says {describe(operand.dimensions)}")
    known = is_extension(operand.type) or fully_specified(operand.type, combined)
    if not known and not argument.varies and (what == "input" or not allow_unspecified_output):
        invalid_argument(f"{place} has dimensions {describe(combined)}, expected all known")
    return combined


def validate_hints(hints: Sequence[TokenValuePair], names: Iterable[ExtensionNameAndPrefix]) -> None:
    """Check that tokens are unique and that each has a prefix that is mapped to an extension.

    The extension says what a hint means; a hint of an unknown extension is ignored. Raises INVALID_ARGUMENT.
    """
    tokens = [hint.token for hint in hints]
    if len(set(tokens)) < len(tokens):
        invalid_argument(f"hint tokens {tokens} are not unique")
    prefixes = {entry.prefix for entry in names}
    for token in tokens:
        if token >> 16 not in prefixes:
            invalid_argument(f"hint {token:#x} has prefix {token >> 16}, which is mapped to no extension")
