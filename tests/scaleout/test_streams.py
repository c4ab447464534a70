from __future__ import annotations

import grpc
import pytest

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from nnhal_ray.messages import ProtocolReply
from nnhal_ray.streams import streamed, streamed_refusal


@pytest.mark.parametrize("size", [0, 100, 200_000])
def test_a_response_of_a_stream_is_the_last_of_its_request(size: int) -> None:
    response = ModelInferResponse(model_name="m", id="7", raw_output_contents=[bytes(size)])
    response.parameters["nnhal_fell_back"].bool_param = False
    found = ModelStreamInferResponse.FromString(streamed(response.SerializeToString()))
    response.parameters["triton_final_response"].bool_param = True
    assert found == ModelStreamInferResponse(infer_response=response)


@pytest.mark.parametrize(("details", "message"), [("no", "no"), ("", "unknown")])
def test_a_refusal_in_a_stream_names_the_request(details: str, message: str) -> None:
    request = ModelInferRequest(model_name="m", id="7").SerializeToString()
    refusal = ProtocolReply(code=grpc.StatusCode.NOT_FOUND, details=details)
    found = ModelStreamInferResponse.FromString(streamed_refusal(request, refusal))
    assert (found.error_message, found.infer_response.id) == (message, "7")
