from __future__ import annotations

import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import HttpCall, ProtocolCall
from nnhal_ray.model_names import model_of


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v2/models/a%20b/infer", "a b"),
        ("/v2/models/m/versions/2/infer", "m"),
        ("/v2/models/m", "m"),
        ("/v2/models/m/ready", "m"),
        ("/v2/models/stats", ""),
        ("/v2/health/ready", ""),
        ("/v2/models/m/trace/setting", ""),
    ],
)
def test_a_path_names_a_model(path: str, model: str) -> None:
    assert model_of(HttpCall("GET", path, "", {}, b"")) == model


def test_a_message_names_a_model() -> None:
    infer = wire.ModelInferRequest(model_name="m", id="7", raw_input_contents=[bytes(64)])
    assert model_of(ProtocolCall("ModelInfer", infer.SerializeToString())) == "m"
    assert model_of(ProtocolCall("ModelReady", wire.ModelReadyRequest(name="m").SerializeToString())) == "m"
    assert model_of(ProtocolCall("ServerReady", b"")) == ""
    assert model_of(ProtocolCall("ModelInfer", b"\xff")) == ""
