"""ONNX's external data: values of tensors that lie in other files than the model's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import tensors_elsewhere
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.weights_apart import LEAST_BYTES, TYPES
from nnhal_frontends.weights_pool import Weights, WeightsPool


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Place of the values of a tensor."""

    tensor: TensorProto
    pool: WeightsPool
    start: int
    length: int
    """In bytes."""

    @property
    def element_type(self) -> np.dtype[np.generic]:
        return helper.tensor_dtype_to_np_dtype(self.tensor.data_type)

    def array(self) -> Array:
        """A view of the values. Raises InvalidModel if they cannot be read."""
        values = self.pool.values[self.start : self.start + self.length]
        return np.asarray(values.view(self.element_type).reshape(tuple(self.tensor.dims)))

    def blank(self) -> Array:
        """Zeros of the same type and shape, which take no memory, for who does not look at the values."""
        return np.broadcast_to(np.zeros((), self.element_type), tuple(self.tensor.dims))


def attach_external_data(
    given: onnx.ModelProto, weights: Weights, limits: ImportLimits
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model with all its values: large initializers as views of ``weights``, the others in its message.

    Raises as ``set_external_data_apart``, and InvalidModel if a file has changed.
    """
    model, places = set_external_data_apart(given, weights, limits)
    return model, {name: place.array() for name, place in places.items()}


def set_external_data_apart(
    given: onnx.ModelProto, weights: Weights, limits: ImportLimits
) -> tuple[onnx.ModelProto, dict[str, TensorPlace]]:
    """Return a model with its values in its message but for large initializers, and the places of these in ``weights``.

    Raises InvalidModel if values are not there or are not as many as their tensor has, and if tensors have more values
    than ``weights``, or more of them have to be copied than the limits permit.
    """
    model = onnx.ModelProto()
    model.CopyFrom(given)
    names = Counter(tensor.name for tensor in model.graph.initializer)
    places: dict[str, TensorPlace] = {}
    left, copied = sum(pool.size for pool in weights.values()), 0

    def taken(tensor: TensorProto) -> TensorPlace:
        nonlocal left
        place = _place(tensor, weights)
        left -= place.length
        if left < 0:
            raise InvalidModel(f"the tensors up to '{tensor.name}' take more bytes than the files of their values have")
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        return place

    for tensor in model.graph.initializer:
        is_alone = tensor.name and names[tensor.name] == 1 and tensor.data_location == TensorProto.EXTERNAL
        if is_alone and tensor.data_type in TYPES and _size(tensor) > LEAST_BYTES:
            places[tensor.name] = taken(tensor)
    for tensor in tensors_elsewhere(model):
        place = taken(tensor)
        copied += place.length
        if copied > limits.folded_bytes:
            raise InvalidModel(
                f"tensors other than large initializers of the main graph have {copied} bytes in other files, expected "
                f"at most {limits.folded_bytes}"
            )
        tensor.raw_data = place.pool.read(place.start, place.length).tobytes()
    return model, places


def _size(tensor: TensorProto) -> int:
    """The bytes that the values of a tensor should have; 0 or less if it can have none."""
    width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return width * prod(tensor.dims) if min(tensor.dims, default=1) > 0 else 0


def _place(tensor: TensorProto, weights: Weights) -> TensorPlace:
    """Return where the values of a tensor lie. Raises InvalidModel."""
    place = {entry.key: entry.value for entry in tensor.external_data}
    location = place.get("location", "")
    pool = weights.get(location)
    if pool is None:
        raise InvalidModel(
            f"the values of tensor '{tensor.name}' lie in another file, '{location}', expected one of those that were "
            f"given with the model: {', '.join(map(repr, weights))}"
        )
    try:
        start = int(place.get("offset", "0"))
        length = int(place["length"]) if "length" in place else pool.size - start
    except ValueError as error:
        raise InvalidModel(f"tensor '{tensor.name}' does not say where in '{location}' its values lie") from error
    if start < 0 or length < 0 or start + length > pool.size:
        raise InvalidModel(
            f"tensor '{tensor.name}' has its values from {start} to {start + length} in '{location}', which has "
            f"{pool.size} bytes"
        )
    if tensor.data_type in TYPES and length != _size(tensor):
        raise InvalidModel(f"tensor '{tensor.name}' has {length} bytes in '{location}', expected {_size(tensor)}")
    return TensorPlace(tensor, pool, start, length)
