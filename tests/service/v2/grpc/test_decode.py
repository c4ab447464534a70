from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from nnhal.inference.grpc_service_pb2 import ModelInferRequest
from nnhal_service.v2.grpc.decode import cut_in_loop, cut_request

SIZES = st.lists(st.sampled_from([0, 1, 127, 128, 20_000]), max_size=4)


@given(SIZES)
def test_a_request_is_the_same_however_it_is_read(sizes: list[int]) -> None:
    whole = ModelInferRequest(model_name="m", id="7", raw_input_contents=[bytes([size % 251]) * size for size in sizes])
    whole.inputs.add(name="x", datatype="FP32", shape=[1, 2]).parameters["a"].double_param = 0.5
    cut = cut_request(whole.SerializeToString())
    assert [bytes(contents) for contents in cut.raw] == list(whole.raw_input_contents)
    assert cut.id == "7"
    del whole.raw_input_contents[:]
    whole.id = ""
    assert ModelInferRequest.FromString(cut.head) == whole


@given(SIZES)
def test_a_request_is_the_same_in_the_loop(sizes: list[int]) -> None:
    data = ModelInferRequest(id="7", raw_input_contents=[bytes(size) for size in sizes]).SerializeToString()
    assert cut_in_loop(data) == cut_request(data)


@pytest.mark.parametrize("key", ["shared_memory_region", "another parameter"])
def test_a_request_without_raw_contents_is_the_same_each_time(key: str) -> None:
    requests = [ModelInferRequest(model_name="m") for _ in range(2)]
    for number, request in enumerate(requests):
        tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
        tensor.parameters[key].string_param = "abcdefgh" * 20
        tensor.contents.fp32_contents.extend([1, number])
    for data in [request.SerializeToString() for request in requests] * 2:
        assert cut_in_loop(data) == cut_request(data)


@pytest.mark.parametrize(
    "request_",
    [
        ModelInferRequest(raw_input_contents=[b""] * 100_000),
        ModelInferRequest(inputs=[ModelInferRequest.InferInputTensor(name="x" * 100_000)]),
        ModelInferRequest(id="x" * 100_000),
    ],
    ids=["fields", "head", "id"],
)
def test_what_takes_long_is_not_cut_in_the_loop(request_: ModelInferRequest) -> None:
    assert cut_in_loop(request_.SerializeToString()) is None


def test_contents_are_views_of_the_request() -> None:
    data = ModelInferRequest(raw_input_contents=[b"x" * 100_000]).SerializeToString()
    (raw,) = cut_request(data).raw
    assert raw.obj is data


def test_requests_that_differ_in_identifier_and_contents_have_one_head() -> None:
    heads = set()
    for number in range(3):
        request = ModelInferRequest(model_name="m", id=str(number), raw_input_contents=[bytes([number])])
        request.inputs.add(name="x", datatype="UINT8", shape=[1])
        heads.add(cut_request(request.SerializeToString()).head)
    assert len(heads) == 1


def test_fields_of_later_versions_are_passed_over() -> None:
    known = ModelInferRequest(model_name="m", raw_input_contents=[b"x" * 100_000]).SerializeToString()
    later = b"\xa0\x06\x05" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh" + b"\xa2\x06\x01a"
    cut = cut_request(later + known)
    assert ModelInferRequest.FromString(cut.head).model_name == "m"
    assert len(cut.raw) == 1


@pytest.mark.parametrize(
    "tail", [b"\x3a\x05a", b"\x3a", b"\x09a", b"\x0f", b"\x0b", b"\x80" * 11, b"\x80", b"\x1a\x01\xff"]
)
def test_what_is_no_message_is_refused(tail: bytes) -> None:
    data = ModelInferRequest(raw_input_contents=[b"x" * 100_000]).SerializeToString() + tail
    with pytest.raises(DecodeError):
        cut_request(data)
    with pytest.raises(DecodeError):
        cut_request(tail)


@given(st.binary(max_size=60))
def test_any_tail_is_read_or_refused(tail: bytes) -> None:
    data = ModelInferRequest(raw_input_contents=[b"x"]).SerializeToString() + tail
    try:
        cut = cut_request(data)
        message = ModelInferRequest.FromString(cut.head)
    except DecodeError:
        return
    whole = ModelInferRequest.FromString(data)
    assert [bytes(contents) for contents in cut.raw] == list(whole.raw_input_contents)
    assert (message.model_name, cut.id) == (whole.model_name, whole.id)


@given(st.data())
def test_a_request_like_an_earlier_one_is_cut_as_if_it_were_the_first(data: st.DataObject) -> None:
    identifier = data.draw(st.sampled_from(["", "7", "\u00e9" * 80]))
    earlier = ModelInferRequest(model_name="m", id=identifier, raw_input_contents=[b"abcd", b"", b"efgh"])
    earlier.inputs.add(name="x" * 60, datatype="FP32", shape=[1])
    whole = bytearray(earlier.SerializeToString())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=2)):
        whole[place] = data.draw(st.integers(0, 255))
    assert cut_in_loop(earlier.SerializeToString()) is not None
    try:
        expected = cut_request(bytes(whole))
    except DecodeError:
        with pytest.raises(DecodeError):
            cut_in_loop(bytes(whole))
    else:
        for _ in range(2):
            assert cut_in_loop(bytes(whole)) == expected
