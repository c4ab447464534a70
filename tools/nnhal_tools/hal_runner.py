"""Run HAL models on a device, through the contract alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.codec.nanoseconds import deadline_after
from nnhal.errors import general_failure
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.tensors import ALIGNMENT, GUESS
from nnhal.types import NO_DEADLINE, DataLocation, Memory, Model, Operand, Request, RequestArgument
from nnhal.types.layout import Dimensions, combine, fully_specified, is_scalar
from nnhal_tools.element_types import element_type_of

_TRIES = 3
"""Executions of one request: the sizes of outputs may become known one after another."""

Arrays = Sequence[Array]


def deadline_in(seconds: float | None) -> int:
    """Return the instant some seconds from now, by CLOCK_BOOTTIME; none without them."""
    return NO_DEADLINE if seconds is None else deadline_after(now_ns(), round(seconds * 1e9))


def run_on(
    device: RemoteDevice, model: Model, samples: Sequence[Arrays], seconds: float | None = None
) -> list[list[Array]]:
    """Prepare a model and execute it once for each sample; return the outputs of each.

    Arrays are in the form that operands have in memory. ``seconds`` limits the preparation and each execution. Raises
    HalError if the device refuses or fails, DeadObjectError if it is gone.
    """
    prepared = device.prepare_model(model, deadline_ns=deadline_in(seconds))
    try:
        return [_execute(prepared, model, inputs, seconds) for inputs in samples]
    finally:
        prepared.release()


def _execute(prepared: RemotePreparedModel, model: Model, inputs: Arrays, seconds: float | None) -> list[Array]:
    operands = [model.main.operands[index] for index in model.main.output_indexes]
    shapes = [operand.dimensions for operand in operands]
    for _ in range(_TRIES):
        request, places, taken = _request(model, inputs, shapes)
        result = prepared.execute(request, deadline_ns=deadline_in(seconds))
        found = [shape.dimensions for shape in result.output_shapes] or shapes
        if result.output_sufficient_size:
            pool = open_pool(taken, writable=False)
            return [
                _read(pool.read(place.offset, _size(model, operand, shape)), model, operand, shape)
                for place, operand, shape in zip(places, operands, found, strict=True)
            ]
        shapes = [combine(known, shape) or known for known, shape in zip(shapes, found, strict=True)]
    general_failure("the outputs did not fit the sizes that the device had asked for")


def _request(model: Model, inputs: Arrays, shapes: Sequence[Dimensions]) -> tuple[Request, list[DataLocation], Memory]:
    """Return a request with memory of its own: where its outputs lie, and in which memory."""
    main = model.main
    given = _places([array.nbytes for array in inputs], 0)
    memory = create_ashmem(_end(given), "nnhal-tools")
    pool = open_pool(memory, writable=True)
    arguments = []
    for array, place, index in zip(inputs, given, main.input_indexes, strict=True):
        pool.write(place.offset, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        operand = main.operands[index]
        known = is_scalar(operand.type) or fully_specified(operand.type, operand.dimensions)
        arguments.append(RequestArgument(place, () if known else array.shape))
    operands = [main.operands[index] for index in main.output_indexes]
    sizes = [_size(model, operand, shape) or GUESS for operand, shape in zip(operands, shapes, strict=True)]
    places = _places(sizes, 1)
    taken = create_ashmem(_end(places), "nnhal-tools")
    request = Request(tuple(arguments), tuple(RequestArgument(place) for place in places), (memory, taken))
    return request, places, taken


def _places(sizes: Sequence[int], pool: int) -> list[DataLocation]:
    places, offset = [], 0
    for size in sizes:
        places.append(DataLocation(pool, offset, max(size, 1)))
        offset += round_up(max(size, 1), ALIGNMENT)
    return places


def _end(places: Sequence[DataLocation]) -> int:
    return round_up(max((place.offset + place.length for place in places), default=1), ALIGNMENT)


def _size(model: Model, operand: Operand, shape: Dimensions) -> int:
    """Return the bytes of an operand in a shape; 0 if they are unknown."""
    if not shape and not is_scalar(operand.type):
        return 0
    return element_type_of(model, operand.type).itemsize * prod(shape)


def _read(raw: Array, model: Model, operand: Operand, shape: Dimensions) -> Array:
    return raw.view(element_type_of(model, operand.type)).reshape(shape)
