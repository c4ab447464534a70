"""Heads that requests or responses share are parsed and encoded once; each keeps its own identifier and tensors."""

from __future__ import annotations

import numpy as np
import pytest
from grpc import RpcError

from nnhal.inference.grpc_service_pb2 import ModelInferRequest
from nnhal_service.serving.requests.request import Parameter
from tests.support.v2 import infer, raw_request
from tests.support.v2_front import Served


def numbered(number: int) -> ModelInferRequest:
    request = raw_request(x=np.full(4, number, np.float32))
    request.id = str(number)
    return request


def test_requests_with_one_head_have_their_own_identifiers_and_tensors(served: Served) -> None:
    for number in (1, 2, 1):
        response = infer(served.channel, numbered(number))
        assert response.id == str(number)
        assert np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [number] * 4
    assert [request.id for request in served.model.requests] == ["1", "2", "1"]


def test_what_one_request_says_of_itself_is_not_said_of_the_next(served: Served) -> None:
    hurried = numbered(1)
    hurried.parameters["timeout"].int64_param = 5_000_000
    for request in (hurried, numbered(1), hurried):
        infer(served.channel, request)
    assert [request.timeout_ns for request in served.model.requests] == [5_000_000_000, 0, 5_000_000_000]


def test_a_wrong_head_is_refused_every_time(served: Served) -> None:
    request = numbered(1)
    request.inputs[0].datatype = "FP31"
    for _ in range(2):
        with pytest.raises(RpcError, match="FP31"):
            infer(served.channel, request)
    infer(served.channel, numbered(1))
    assert len(served.model.requests) == 1


def test_parameters_that_are_equal_keep_their_types(served: Served) -> None:
    values: list[tuple[Parameter, str]] = [(True, "bool_param"), (1, "int64_param"), (1.0, "double_param")]
    for value, field in values:
        served.model.parameters = {"p": value}
        assert infer(served.channel, numbered(1)).parameters["p"].WhichOneof("parameter_choice") == field


def test_outputs_of_other_shapes_are_said_to_have_them(served: Served) -> None:
    for shape in ([2, 2], [4, 1], [2, 2]):
        response = infer(served.channel, raw_request(x=np.zeros(shape, np.float32)))
        assert list(response.outputs[0].shape) == shape
