from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnhal.inference.grpc_service_pb2 import ModelInferResponse, ModelStreamInferResponse
from nnhal_service.v2.grpc.encode import EncodedAnswer, encode_response, encode_stream_response, raw_fields

SIZES = st.lists(st.sampled_from([0, 1, 127, 128, 20_000]), max_size=4)


@given(SIZES, st.sampled_from(["", "7", "\u00e9" * 100]))
def test_responses_are_what_protobuf_would_write(sizes: list[int], request_id: str) -> None:
    contents = [np.full(size, 3, np.uint8) for size in sizes]
    head = ModelInferResponse(model_name="m").SerializeToString()
    whole = ModelInferResponse(
        model_name="m", id=request_id, raw_output_contents=[array.tobytes() for array in contents]
    )
    answer = EncodedAnswer({}, head, raw_fields([array.data for array in contents]), sum(sizes))
    assert ModelInferResponse.FromString(encode_response(answer, request_id)) == whole
    streamed = ModelStreamInferResponse.FromString(encode_stream_response(answer, request_id))
    assert streamed == ModelStreamInferResponse(infer_response=whole)
