"""The answers of ModelStreamInfer, made of the answers of ModelInfer."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from nnhal_ray.messages import ProtocolReply

_LENGTH_DELIMITED = 2
_RESPONSE_TAG = bytes([ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_WITHOUT_TEXT = "unknown"


def streamed(response: bytes) -> bytes:
    """A ModelStreamInferResponse with a ModelInferResponse, which is the last of its request as each has only one."""
    length = len(response) + len(_FINAL)
    return b"".join((_RESPONSE_TAG, _varint(length), response, _FINAL))


def streamed_refusal(request: bytes, refusal: ProtocolReply) -> bytes:
    """A ModelStreamInferResponse with the text of a refusal and the id of its request."""
    try:
        request_id = ModelInferRequest.FromString(request).id
    except DecodeError:
        request_id = ""
    return ModelStreamInferResponse(
        error_message=refusal.details or _WITHOUT_TEXT, infer_response=ModelInferResponse(id=request_id)
    ).SerializeToString()


def _final() -> bytes:
    """What makes a response the last of its request: messages of protobuf may be joined to one."""
    message = ModelInferResponse()
    message.parameters["triton_final_response"].bool_param = True
    return message.SerializeToString()


_FINAL = _final()


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
