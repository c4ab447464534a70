from __future__ import annotations

import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.changes import Change, change_of, newest
from nnhal_ray.messages import HttpCall, ProtocolCall

LOAD = wire.RepositoryModelLoadRequest(model_name="m")
UNLOAD = wire.RepositoryModelUnloadRequest(model_name="m")


def over_http(path: str, method: str = "POST") -> HttpCall:
    return HttpCall(method, path, "", {}, b"")


@pytest.mark.parametrize(
    ("call", "model"),
    [
        (ProtocolCall("RepositoryModelLoad", wire.RepositoryModelLoadRequest(model_name="m").SerializeToString()), "m"),
        (
            ProtocolCall(
                "RepositoryModelUnload", wire.RepositoryModelUnloadRequest(model_name="m").SerializeToString()
            ),
            "m",
        ),
        (over_http("/v2/repository/models/a%20b/load"), "a b"),
        (over_http("/v2/repository/models/m/unload"), "m"),
        (over_http("/v2/logging"), ""),
        (over_http("/v2/models/m/trace/setting"), ""),
    ],
)
def test_what_concerns_all_hosts_is_a_change(call: ProtocolCall | HttpCall, model: str) -> None:
    assert change_of(call, 7) == Change(call, model, 7)


@pytest.mark.parametrize(
    "call",
    [
        ProtocolCall("ModelMetadata", b""),
        ProtocolCall("TraceSetting", b""),
        ProtocolCall("RepositoryModelLoad", b"\xff"),
        over_http("/v2/repository/index"),
        over_http("/v2/logging", "GET"),
        over_http("/v2/models/load/infer"),
    ],
)
def test_what_one_host_can_answer_is_none(call: ProtocolCall | HttpCall) -> None:
    assert change_of(call, 7) is None


def test_settings_that_are_changed_are_a_change() -> None:
    request = wire.LogSettingsRequest()
    request.settings["log_info"].bool_param = True
    assert change_of(ProtocolCall("LogSettings", request.SerializeToString()), 7) is not None


def test_of_several_changes_of_a_model_the_last_one_counts() -> None:
    first, second, other = (
        Change(over_http(f"/v2/repository/models/{model}/load"), model, at)
        for model, at in (("m", 1), ("m", 3), ("n", 2))
    )
    assert newest([second, first, other]) == [other, second]
