"""Inferences over gRPC at one host: on its devices by the native client if that can be, else by its framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.inference.datatypes import TensorError, array_from_raw, datatype_of, raw_from_array
from nnhal.inference.grpc_service_pb2 import ModelInferResponse
from nnhal_ray.colleagues import Colleagues
from nnhal_ray.forwarding import Forwarder
from nnhal_ray.messages import ProtocolCall, ProtocolReply, Reply
from nnhal_ray.native_models import NativeModels, NativeOutputs
from nnhal_ray.refusals import SHARED_MEMORY, unimplemented
from nnhal_ray.sequences import turn_of
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.grpc.decode import Asked, CutRequest, cut_request, head_of
from nnhal_service.v2.grpc.encode import encode_response
from nnhal_service.v2.requested import RequestParameters

_KEPT_HEADS = 1024
_NO_PARAMETERS = RequestParameters(0, 0, {})
FELL_BACK = "nnhal_fell_back"
"""The parameter of a response that says whether another device replaced one that failed."""


class HostInferences:
    """``ModelInfer`` of one host."""

    def __init__(self, forwarder: Forwarder, models: NativeModels | None, colleagues: Colleagues) -> None:
        """Without ``models`` every request is passed on."""
        self._forwarder = forwarder
        self._models = models
        self._colleagues = colleagues

    async def infer(self, call: ProtocolCall) -> Reply:
        """Run a model. What is wrong with a request, the framework says."""
        try:
            cut = cut_request(call.message)
            head = head_of(cut.head)
            asked = head.asked()
            if asked.has_regions:
                return unimplemented(SHARED_MEMORY)
            turn = turn_of(head.model_name, asked.parameters.others)
            if turn is not None:
                return await self._colleagues.in_sequence(turn, call)
            inputs = _arrays(asked, cut) if self._models is not None else None
        except (DecodeError, ServingError, TensorError):
            return await self._forwarder.forward(call)
        if inputs is not None and self._models is not None:
            found = await self._models.run(head.model_name, head.model_version, inputs)
            names = [output.name for output in asked.outputs]
            if found is not None and found.outputs.keys() >= set(names):
                return ProtocolReply(_encoded(head.model_name, cut.id, found, names))
        reply = await self._forwarder.forward(call)
        return await self._colleagues.again(call, reply) if reply.is_unanswered else reply


def _arrays(asked: Asked, cut: CutRequest) -> Mapping[str, Array] | None:
    """The inputs as views of the request; None if they, or what is asked for, are not plain tensors of numbers."""
    plain = asked.parameters == _NO_PARAMETERS and not any(output.classes for output in asked.outputs)
    if not plain or asked.has_strings or len(cut.raw) != len(asked.inputs):
        return None
    if any(given.contents is not None for given in asked.inputs):
        return None
    return {
        given.name: array_from_raw(given.kind, given.shape, raw)
        for given, raw in zip(asked.inputs, cut.raw, strict=True)
    }


def _encoded(model: str, request_id: str, found: NativeOutputs, names: Sequence[str]) -> bytes:
    arrays = {name: found.outputs[name] for name in names or found.outputs}
    heads = tuple((name, datatype_of(array).name, array.shape) for name, array in arrays.items())
    head = _head(model, found.version, heads, found.fell_back)
    return encode_response(head, request_id, [raw_from_array(array) for array in arrays.values()])


@lru_cache(_KEPT_HEADS)
def _head(model: str, version: str, outputs: tuple[tuple[str, str, tuple[int, ...]], ...], fell_back: bool) -> bytes:
    """A ModelInferResponse without its id and its tensors, mostly the same for all requests of a client."""
    message = ModelInferResponse(model_name=model, model_version=version)
    message.parameters[FELL_BACK].bool_param = fell_back
    for name, kind, shape in outputs:
        message.outputs.add(name=name, datatype=kind, shape=shape)
    return message.SerializeToString()
