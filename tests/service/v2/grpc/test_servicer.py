from __future__ import annotations

import pytest
from google.protobuf.message import Message
from grpc import RpcError, StatusCode

from nnhal.inference import grpc_service_pb2 as wire
from tests.support.v2 import call, in_bytes
from tests.support.v2_front import Served


def refused(served: Served, name: str, request: Message) -> tuple[StatusCode, str]:
    with pytest.raises(RpcError) as got:
        call(served.channel, name, request)
    return got.value.code(), got.value.details() or ""


def test_a_server_whose_models_are_not_loaded_is_live_and_not_ready(served: Served) -> None:
    served.repository.is_up = False
    assert call(served.channel, "ServerLive", wire.ServerLiveRequest()) == wire.ServerLiveResponse(live=True)
    assert call(served.channel, "ServerReady", wire.ServerReadyRequest()) == wire.ServerReadyResponse(ready=False)


def test_the_index_lists_models(served: Served) -> None:
    entry = wire.RepositoryIndexResponse.ModelIndex
    ready = entry(name="echo", version="1", state="READY")
    absent = entry(name="absent", state="UNAVAILABLE", reason="not loaded")
    everything = call(served.channel, "RepositoryIndex", wire.RepositoryIndexRequest())
    assert everything == wire.RepositoryIndexResponse(models=[ready, absent])
    only_ready = call(served.channel, "RepositoryIndex", wire.RepositoryIndexRequest(ready=True))
    assert only_ready == wire.RepositoryIndexResponse(models=[ready])


def test_models_are_unloaded(served: Served) -> None:
    request = wire.RepositoryModelUnloadRequest(model_name="echo")
    call(served.channel, "RepositoryModelUnload", request)
    request.parameters["unload_dependents"].bool_param = True
    call(served.channel, "RepositoryModelUnload", request)
    assert served.repository.calls == [("unload", "echo", False), ("unload", "echo", True)]


@pytest.mark.parametrize(
    ("key", "parameter", "message"),
    [
        ("config", wire.ModelRepositoryParameter(int64_param=1), "expected string_param, got int64_param"),
        ("file:1/model.onnx", wire.ModelRepositoryParameter(), "expected bytes_param, got no value"),
        ("other", wire.ModelRepositoryParameter(bool_param=True), "parameter 'other' of loading is unknown"),
    ],
)
def test_parameters_of_loading_are_checked(
    served: Served, key: str, parameter: wire.ModelRepositoryParameter, message: str
) -> None:
    request = wire.RepositoryModelLoadRequest(model_name="echo", parameters={key: parameter})
    code, details = refused(served, "RepositoryModelLoad", request)
    assert code == StatusCode.INVALID_ARGUMENT
    assert message in details
    assert served.repository.calls == []


@pytest.mark.parametrize(
    "parameters",
    [{"unload_dependents": wire.ModelRepositoryParameter(string_param="yes")}, {"x": wire.ModelRepositoryParameter()}],
)
def test_parameters_of_unloading_are_checked(
    served: Served, parameters: dict[str, wire.ModelRepositoryParameter]
) -> None:
    request = wire.RepositoryModelUnloadRequest(model_name="echo", parameters=parameters)
    assert refused(served, "RepositoryModelUnload", request)[0] == StatusCode.INVALID_ARGUMENT
    assert served.repository.calls == []


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("RepositoryIndex", wire.RepositoryIndexRequest(repository_name="a")),
        ("RepositoryModelLoad", wire.RepositoryModelLoadRequest(repository_name="a", model_name="echo")),
        ("RepositoryModelUnload", wire.RepositoryModelUnloadRequest(repository_name="a", model_name="echo")),
    ],
)
def test_repositories_have_no_names(served: Served, name: str, request_: Message) -> None:
    expected = (StatusCode.UNIMPLEMENTED, "'repository_name' specification is not supported")
    assert refused(served, name, request_) == expected


def test_a_log_setting_needs_a_value(served: Served) -> None:
    request = wire.LogSettingsRequest()
    request.settings["log_info"].SetInParent()
    expected = (StatusCode.INVALID_ARGUMENT, "log setting 'log_info' has no value")
    assert refused(served, "LogSettings", request) == expected


def test_a_call_that_there_is_not_is_unimplemented(served: Served) -> None:
    with pytest.raises(RpcError) as got:
        in_bytes(served.channel, "Other")(b"", timeout=30)
    assert got.value.code() == StatusCode.UNIMPLEMENTED
