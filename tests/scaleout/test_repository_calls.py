from __future__ import annotations

import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.messages import HttpCall, ProtocolCall
from nnhal_ray.repository_calls import RepositoryAct, RepositoryCall, repository_call


def over_http(path: str, body: bytes = b"") -> HttpCall:
    return HttpCall("POST", path, "", {}, body)


def test_a_load_says_whether_it_comes_with_a_configuration() -> None:
    load = wire.RepositoryModelLoadRequest(model_name="m")
    assert repository_call(ProtocolCall("RepositoryModelLoad", load.SerializeToString())) == RepositoryCall(
        RepositoryAct.LOAD, "m"
    )
    load.parameters["config"].string_param = "{}"
    found = repository_call(ProtocolCall("RepositoryModelLoad", load.SerializeToString()))
    body = b'{"parameters": {"config": "{}"}}'
    assert found == repository_call(over_http("/v2/repository/models/m/load", body))
    assert found == RepositoryCall(RepositoryAct.LOAD, "m", has_parameters=True)


def test_an_unload_may_have_parameters() -> None:
    body = b'{"parameters": {"unload_dependents": true}}'
    found = repository_call(over_http("/v2/repository/models/a%20b/unload", body))
    assert found == RepositoryCall(RepositoryAct.UNLOAD, "a b")


@pytest.mark.parametrize(("body", "ready"), [(b"", False), (b'{"ready":true}', True), (b'{"ready": false}', False)])
def test_an_index_says_whether_it_is_of_ready_models(body: bytes, ready: bool) -> None:
    assert repository_call(over_http("/v2/repository/index", body)) == RepositoryCall(RepositoryAct.INDEX, ready=ready)


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_malformed_request_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="JSON"):
        repository_call(over_http("/v2/repository/models/m/load", body))


def test_other_calls_are_not_about_the_repository() -> None:
    assert repository_call(over_http("/v2/models/m/infer")) is None
    assert repository_call(ProtocolCall("ModelInfer", b"")) is None
