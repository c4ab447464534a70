"""Requests of sequences over several hosts."""

from __future__ import annotations

import orjson
import pytest

from nnhal.inference.grpc_service_pb2 import ModelInferRequest
from nnhal_ray.messages import Call, HttpCall, ProtocolCall
from nnhal_ray.sequences import StreamSequences, require_alone
from nnhal_service.serving.errors import ErrorKind, ServingError


def message(model: str = "sum", **parameters: int | str | bool) -> bytes:
    request = ModelInferRequest(model_name=model)
    for name, value in parameters.items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(value)]
        setattr(request.parameters[name], kind, value)
    return request.SerializeToString()


def over_http(content: object, **headers: str) -> HttpCall:
    return HttpCall("POST", "/v2/models/sum/infer", "", headers, orjson.dumps(content))


LONG = [{"name": "x", "shape": [1 << 14], "datatype": "FP32", "data": [1.5] * (1 << 14)}]
ESCAPED = b'{"parameters": {"\\u0073equence_id": 7}}'


@pytest.mark.parametrize(
    "call",
    [
        ProtocolCall("ModelInfer", message(sequence_id=7)),
        ProtocolCall("ModelInfer", message(sequence_id="7", sequence_start=True)),
        over_http({"parameters": {"sequence_id": 7}}),
        over_http({"inputs": LONG, "parameters": {"sequence_id": 7}}),
        HttpCall("POST", "/v2/models/sum/infer", "", {}, ESCAPED),
        HttpCall(
            "POST",
            "/v2/models/sum/infer",
            "",
            {"inference-header-content-length": str(len(ESCAPED))},
            ESCAPED + bytes(8),
        ),
    ],
    ids=["number", "text", "json", "long", "escaped", "binary"],
)
def test_a_request_of_a_sequence_is_refused_with_the_way_out(call: Call) -> None:
    with pytest.raises(ServingError, match=r"in one stream .* or serve with max_hosts=1") as caught:
        require_alone(call)
    assert caught.value.kind is ErrorKind.UNSUPPORTED


@pytest.mark.parametrize(
    "call",
    [
        ProtocolCall("ModelInfer", message()),
        ProtocolCall("ModelInfer", message(sequence_id=0, sequence_start=True)),
        ProtocolCall("ModelInfer", b"\xff"),
        over_http({"inputs": LONG, "parameters": {}}),
        over_http(["sequence_id"]),
        over_http({"parameters": ["sequence_id"]}),
        HttpCall("POST", "/v2/models/sum/infer", "", {}, b"sequence_id"),
    ],
)
def test_others_and_malformed_ones_are_the_framework_s(call: Call) -> None:
    require_alone(call)


def test_in_a_stream_a_sequence_goes_on_from_its_start_to_its_end() -> None:
    sequences = StreamSequences()
    sequences.require_started(message())
    sequences.require_started(message(sequence_id=7, sequence_start=True))
    sequences.require_started(message(sequence_id=7))
    for other in (message(sequence_id="7"), message("other", sequence_id=7)):
        with pytest.raises(ServingError, match="has not started in this stream"):
            sequences.require_started(other)
    sequences.require_started(message(sequence_id=7, sequence_end=True))
    with pytest.raises(ServingError, match="sequence 7 has not started in this stream"):
        sequences.require_started(message(sequence_id=7))
