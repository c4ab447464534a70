from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from nnhal.inference.grpc_service_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from nnhal_service.v2.grpc import wire
from nnhal_service.v2.grpc.wire import decode_request, encode_response, encode_stream_response

SIZES = st.lists(st.sampled_from([0, 1, 127, 128, 20_000]), max_size=4)


@given(SIZES)
def test_a_request_is_the_same_however_it_is_read(sizes: list[int]) -> None:
    whole = ModelInferRequest(model_name="m", id="7", raw_input_contents=[bytes([size % 251]) * size for size in sizes])
    whole.inputs.add(name="x", datatype="FP32", shape=[1, 2]).parameters["a"].double_param = 0.5
    message, raw = decode_request(whole.SerializeToString())
    assert [bytes(contents) for contents in raw] == list(whole.raw_input_contents)
    del message.raw_input_contents[:], whole.raw_input_contents[:]
    assert message == whole


def test_large_contents_are_views_of_the_request() -> None:
    data = ModelInferRequest(raw_input_contents=[b"x" * 100_000]).SerializeToString()
    _, (raw,) = decode_request(data)
    assert isinstance(raw, memoryview)
    assert raw.obj is data


def test_fields_of_later_versions_are_passed_over() -> None:
    known = ModelInferRequest(model_name="m", raw_input_contents=[b"x" * 100_000]).SerializeToString()
    later = b"\xa0\x06\x05" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh" + b"\xa2\x06\x01a"
    message, raw = decode_request(later + known)
    assert message.model_name == "m"
    assert len(raw) == 1


@pytest.mark.parametrize("tail", [b"\x3a\x05a", b"\x3a", b"\x09a", b"\x0f", b"\x0b", b"\x80" * 11, b"\x80"])
def test_what_is_no_message_is_refused(tail: bytes) -> None:
    data = ModelInferRequest(raw_input_contents=[b"x" * 100_000]).SerializeToString() + tail
    with pytest.raises(DecodeError):
        decode_request(data)
    with pytest.raises(DecodeError):
        decode_request(tail)


@given(st.binary(max_size=60))
def test_any_tail_is_read_or_refused(tail: bytes) -> None:
    data = ModelInferRequest(raw_input_contents=[b"x" * wire._SMALL]).SerializeToString() + tail
    try:
        message, raw = decode_request(data)
    except DecodeError:
        return
    whole = ModelInferRequest.FromString(data)
    assert [bytes(contents) for contents in raw] == list(whole.raw_input_contents)
    assert message.model_name == whole.model_name


@given(SIZES)
def test_responses_are_what_protobuf_would_write(sizes: list[int]) -> None:
    contents = [np.full(size, 3, np.uint8) for size in sizes]
    head = ModelInferResponse(model_name="m", id="7")
    whole = ModelInferResponse(model_name="m", id="7", raw_output_contents=[array.tobytes() for array in contents])
    raw = [array.data for array in contents]
    assert ModelInferResponse.FromString(encode_response(head, raw)) == whole
    streamed = ModelStreamInferResponse.FromString(encode_stream_response(head, raw))
    assert streamed == ModelStreamInferResponse(infer_response=whole)
