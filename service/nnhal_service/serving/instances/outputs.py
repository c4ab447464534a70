"""The part of each request in the outputs of an instance that has run."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.errors import general_failure
from nnhal.extensions.values import strings_from_bytes
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.instances.instance import Instance
from nnhal_service.serving.queue.batch import Batch
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData, to_array
from nnhal_service.serving.requests.request import MOST_KEPT_ANSWERS, ShownOutputs
from nnhal_service.serving.requests.signature import ModelSignature, ServedTensor


class OutputShares:
    """Hands the outputs of one model to requests, as clients see them. Safe to use from several threads."""

    def __init__(self, signature: ModelSignature) -> None:
        self._outputs = signature.outputs
        self._index = signature.output_index
        self._listed = signature.listed_outputs
        self.converts = any(served.is_value or served.tensor.stored != served.element_type for served in self._outputs)
        """True if it takes more than views to hand outputs out."""

    def hand_out(self, batch: Batch, instance: Instance) -> None:
        """Give each request its outputs. Raises GENERAL_FAILURE if an output has not the length of the batch."""
        requests = batch.requests
        if len(requests) == 1:
            alone = requests[0]
            wanted = alone.request.outputs
            outputs = {name: self._shown(name, instance) for name in wanted or self._listed}
            alone.outputs = outputs
            if instance.has_fixed_outputs and not self.converts and len(instance.shown) < MOST_KEPT_ANSWERS:
                alone.outputs = instance.shown[tuple(wanted)] = ShownOutputs(outputs)
            return
        whole = {name: self._shown(name, instance) for name in self._index}
        for name, array in whole.items():
            if not array.shape or len(array) != batch.size:
                general_failure(f"output {name!r} has shape {list(array.shape)} for a batch of {batch.size}")
        start = 0
        for queued in requests:
            end = start + queued.size
            queued.outputs = {name: to_array(whole[name])[start:end] for name in queued.request.outputs or self._listed}
            start = end

    def _shown(self, name: str, instance: Instance) -> TensorData:
        """An output in the shape in which clients see it."""
        index = self._index[name]
        served = self._outputs[index]
        output = _converted(name, served, instance.output(index))
        return output if served.reshape is None else served.reshape.for_client(output)


def _converted(name: str, served: ServedTensor, stored: TensorData) -> TensorData:
    """An output in the model's own element type: a view if memory holds that type, else a copy."""
    if isinstance(stored, PlacedTensor):
        return stored
    if served.is_value:
        try:
            return strings_from_bytes(stored)
        except (ValueError, DecodeError):
            raise ServingError(ErrorKind.UNSUPPORTED, f"output '{name}' is not a tensor of strings") from None
    array = stored if stored.dtype == served.element_type else stored.astype(served.element_type)
    return array.reshape(()) if served.tensor.scalar else array
