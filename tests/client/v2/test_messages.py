from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import TransportError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.inference.datatypes import DATATYPES
from nnhal_client.v2.messages import V2Tensor, outputs_of, request_of, tensor_of

Metadata = wire.ModelMetadataResponse.TensorMetadata


def tensor(datatype: str, *dimensions: int) -> V2Tensor:
    return tensor_of(Metadata(name="x", datatype=datatype, shape=dimensions))


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
def test_what_goes_out_comes_back(datatype: str) -> None:
    kind = DATATYPES[datatype]
    words = np.array([[b"a", b"", b"b\0c"]], object)
    array = words if datatype == "BYTES" else np.array([[1, 0, 1]]).astype(kind.dtype)
    request = request_of("m", "1", [tensor(datatype, -1, 3)], {"x": array})
    assert (request.model_name, request.model_version) == ("m", "1")
    assert (request.inputs[0].datatype, list(request.inputs[0].shape)) == (datatype, [1, 3])
    response = wire.ModelInferResponse(raw_output_contents=request.raw_input_contents)
    response.outputs.add(name="y", datatype=datatype, shape=[1, 3])
    output = outputs_of(response)["y"]
    assert np.asarray(output).dtype == kind.dtype
    np.testing.assert_array_equal(np.asarray(output), array)


def test_an_open_axis_takes_any_length() -> None:
    assert tensor("FP32", -1, 8).dimensions == (0, 8)
    for rows in (0, 1, 7):
        assert tensor("FP32", -1, 8).array(np.zeros((rows, 8), np.float32)).shape == (rows, 8)


@pytest.mark.parametrize(
    "given", [np.zeros((1, 7), np.float32), np.zeros(8, np.float32), np.zeros((1, 8), np.float64), ["a"]]
)
def test_what_the_model_does_not_take_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"expected float32 \[\?, 8\]"):
        request_of("m", "", [tensor("FP32", -1, 8)], {"x": given})


def test_all_inputs_are_needed_and_no_others() -> None:
    with pytest.raises(ValueError, match=r"got inputs \['z'\], expected \['x'\]"):
        request_of("m", "", [tensor("FP32", 1)], {"z": np.zeros(1, np.float32)})


def test_a_datatype_that_is_none_is_no_metadata() -> None:
    with pytest.raises(TransportError, match="FP12"):
        tensor("FP12", 1)


@pytest.mark.parametrize("raw", [[], [b"123"], [b"1234", b"5678"]])
def test_outputs_that_are_none_are_no_answer(raw: list[bytes]) -> None:
    response = wire.ModelInferResponse(raw_output_contents=raw)
    response.outputs.add(name="y", datatype="FP32", shape=[1])
    with pytest.raises(TransportError, match="malformed outputs"):
        outputs_of(response)
