"""The requests that a model runs before it is ready to serve."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.inference import model_config_pb2 as wire
from nnhal.inference.datatypes import BYTES, Datatype, TensorError, array_from_raw
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.source import ModelSource
from nnhal_service.repository.tensors import UNKNOWN, ModelTensor, datatype_of, type_name
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import InferenceRequest

WARMUP_FOLDER = "warmup"
_MOST_AXES = 32
_MOST_ELEMENTS = 1 << 26
"""The most elements of the data of all warm-up requests of a model."""


def warmup_requests(
    config: wire.ModelConfig, inputs: Sequence[ModelTensor], source: ModelSource, skip_files: bool = False
) -> list[InferenceRequest]:
    """Make the requests in order, one for each run; with ``skip_files`` those without data from files only.

    Raises ServingError if data does not fit the model.
    """
    requests: list[InferenceRequest] = []
    left = _MOST_ELEMENTS
    for number, warmup in enumerate(config.model_warmup):
        if skip_files and any(entry.HasField("input_data_file") for entry in warmup.inputs.values()):
            continue
        try:
            shapes = _shapes(warmup, config.max_batch_size, inputs)
            left -= sum(prod(shape) for shape in shapes.values())
            if left < 0:
                raise _invalid(f"the data of all requests has more than {_MOST_ELEMENTS} elements, which is the limit")
            arrays = {t.name: _array(warmup.inputs[t.name], shapes[t.name], t, source) for t in inputs}
        except ServingError as error:
            raise ServingError(error.kind, f"model_warmup {warmup.name or number!r}: {error.message}") from error
        requests += [InferenceRequest(arrays)] * (warmup.count or 1)
    return requests


def _shapes(warmup: wire.ModelWarmup, max_batch_size: int, inputs: Sequence[ModelTensor]) -> dict[str, tuple[int, ...]]:
    """The shapes of a request's inputs, the batch included. Raises INVALID_ARGUMENT if the model has others."""
    names = [tensor.name for tensor in inputs]
    if sorted(warmup.inputs) != sorted(names):
        raise _invalid(f"it has inputs {sorted(warmup.inputs)}, expected {sorted(names)}")
    if warmup.batch_size > max_batch_size:
        raise _invalid(f"batch_size is {warmup.batch_size}, expected at most max_batch_size, which is {max_batch_size}")
    batch = (warmup.batch_size or 1,) if max_batch_size > 0 else ()
    return {tensor.name: _shape(warmup.inputs[tensor.name], tensor, batch) for tensor in inputs}


def _shape(given: wire.ModelWarmup.Input, tensor: ModelTensor, batch: tuple[int, ...]) -> tuple[int, ...]:
    if given.data_type != tensor.data_type:
        got, expected = type_name(given.data_type), type_name(tensor.data_type)
        raise _invalid(f"{tensor.name!r} has data_type {got}, expected {expected}")
    shape = (*batch, *given.dims)
    fits = tensor.shape is None or (
        len(shape) == len(tensor.shape)
        and all(wanted in (UNKNOWN, got) for got, wanted in zip(shape, tensor.shape, strict=True))
    )
    if not fits or any(length < 0 for length in shape) or len(shape) > _MOST_AXES:
        expected_dims = list((tensor.shape or ())[len(batch) :])
        raise _invalid(f"{tensor.name!r} has dims {list(given.dims)}, expected {expected_dims}, all of them known")
    return shape


def _array(given: wire.ModelWarmup.Input, shape: tuple[int, ...], tensor: ModelTensor, source: ModelSource) -> Array:
    kind = datatype_of(tensor.data_type)
    match given.WhichOneof("input_data_type"):
        case "random_data":
            return _random(shape, kind.dtype)
        case "input_data_file":
            return _from_file(given.input_data_file, shape, kind, source)
        case None:
            raise _invalid(f"{tensor.name!r} has none of zero_data, random_data and input_data_file, expected one")
        case _:
            return np.full(shape, b"" if kind is BYTES else 0, kind.dtype)


def _random(shape: tuple[int, ...], element_type: np.dtype[np.generic]) -> Array:
    """Return the same numbers each time: floats from 0 to 1, integers from 0 to 100, BYTES of one letter."""
    generator = np.random.default_rng(0)
    if element_type.hasobject:
        letters = generator.integers(ord("a"), ord("z") + 1, shape)
        array = np.empty(letters.size, object)
        array[:] = [bytes([letter]) for letter in letters.reshape(-1)]
        return array.reshape(shape)
    if element_type.kind == "b":
        return generator.integers(0, 2, shape).astype(element_type)
    if element_type.kind in "iu":
        return generator.integers(0, 101, shape).astype(element_type)
    return generator.random(shape).astype(element_type)


def _from_file(name: str, shape: tuple[int, ...], kind: Datatype, source: ModelSource) -> Array:
    if not is_file_name(name):
        raise _invalid(f"input_data_file {name!r}: expected a file in the folder {WARMUP_FOLDER!r} of the model's")
    try:
        return array_from_raw(kind, shape, source.read(f"{WARMUP_FOLDER}/{name}"))
    except TensorError as error:
        raise _invalid(f"input_data_file {name!r}: {error}") from error


def _invalid(message: str) -> ServingError:
    return ServingError(ErrorKind.INVALID_ARGUMENT, message)
