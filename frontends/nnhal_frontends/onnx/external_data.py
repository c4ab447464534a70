"""ONNX's external data: values of tensors that lie in other files than the model's."""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnhal.arrays import Array, Bytes
from nnhal.extensions.onnx import tensors_elsewhere
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.weights_apart import LEAST_BYTES, TYPES
from nnhal_frontends.weights_pool import Weights


def attach_external_data(
    given: onnx.ModelProto, weights: Weights, limits: ImportLimits
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model with all its values: large initializers as views of ``weights``, the others in its message.

    Raises InvalidModel if values are not there or are not as many as their tensor has, and if tensors have more values
    than ``weights``, or more of them have to be copied than the limits permit.
    """
    model = onnx.ModelProto()
    model.CopyFrom(given)
    names = Counter(tensor.name for tensor in model.graph.initializer)
    views: dict[str, Array] = {}
    left, copied = sum(pool.values.nbytes for pool in weights.values()), 0

    def taken(tensor: TensorProto) -> Bytes:
        nonlocal left
        raw = _values(tensor, weights)
        left -= len(raw)
        if left < 0:
            raise InvalidModel(f"the tensors up to '{tensor.name}' take more bytes than the files of their values have")
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        return raw

    for tensor in model.graph.initializer:
        is_alone = tensor.name and names[tensor.name] == 1 and tensor.data_location == TensorProto.EXTERNAL
        if is_alone and tensor.data_type in TYPES and _size(tensor) > LEAST_BYTES:
            element = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            views[tensor.name] = taken(tensor).view(element).reshape(tuple(tensor.dims))
    for tensor in tensors_elsewhere(model):
        raw = taken(tensor)
        copied += len(raw)
        if copied > limits.folded_bytes:
            raise InvalidModel(
                f"tensors other than large initializers of the main graph have {copied} bytes in other files, expected "
                f"at most {limits.folded_bytes}"
            )
        tensor.raw_data = raw.tobytes()
    return model, views


def _size(tensor: TensorProto) -> int:
    """The bytes that the values of a tensor should have; 0 or less if it can have none."""
    width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return width * prod(tensor.dims) if min(tensor.dims, default=1) > 0 else 0


def _values(tensor: TensorProto, weights: Weights) -> Bytes:
    """Return the bytes of a tensor. Raises InvalidModel."""
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
        length = int(place["length"]) if "length" in place else pool.values.nbytes - start
    except ValueError as error:
        raise InvalidModel(f"tensor '{tensor.name}' does not say where in '{location}' its values lie") from error
    if start < 0 or length < 0 or start + length > pool.values.nbytes:
        raise InvalidModel(
            f"tensor '{tensor.name}' has its values from {start} to {start + length} in '{location}', which has "
            f"{pool.values.nbytes} bytes"
        )
    if tensor.data_type in TYPES and length != _size(tensor):
        raise InvalidModel(f"tensor '{tensor.name}' has {length} bytes in '{location}', expected {_size(tensor)}")
    return np.asarray(pool.values[start : start + length])
