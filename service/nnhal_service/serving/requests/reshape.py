"""Tensors that clients see in another shape than the model."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from nnhal.types.layout import Dimensions
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Reshape:
    """Two shapes of a tensor. The n-th unknown dimension (-1) of one is the n-th of the other."""

    client: Dimensions
    model: Dimensions

    @property
    def is_valid(self) -> bool:
        """Return whether both have the same number of elements, whatever the unknown dimensions are."""
        same_unknown = self.client.count(_UNKNOWN) == self.model.count(_UNKNOWN)
        return same_unknown and abs(prod(self.client)) == abs(prod(self.model))

    def for_model(self, tensor: TensorData) -> TensorData:
        """A tensor of a client, which has the client's shape."""
        return _reshaped(tensor, _mapped(tensor.shape, self.client, self.model))

    def for_client(self, tensor: TensorData) -> TensorData:
        """A tensor of the model; as it is if it has another rank than the model says."""
        if len(tensor.shape) != len(self.model):
            return tensor
        return _reshaped(tensor, _mapped(tensor.shape, self.model, self.client))


def _mapped(shape: Dimensions, source: Dimensions, target: Dimensions) -> Dimensions:
    found = iter([length for length, stated in zip(shape, source, strict=True) if stated == _UNKNOWN])
    return tuple(next(found) if stated == _UNKNOWN else stated for stated in target)


def _reshaped(tensor: TensorData, shape: Dimensions) -> TensorData:
    if isinstance(tensor, PlacedTensor):
        return PlacedTensor(tensor.dtype, shape, tensor.place)
    return tensor.reshape(shape)
