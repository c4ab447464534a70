from __future__ import annotations

import grpc
import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_ray.changes import Change, HostReply, change_of, joined, newest
from nnhal_ray.messages import HttpCall, HttpReply, ProtocolCall, ProtocolReply

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


def test_one_reply_stands_for_those_of_all_hosts() -> None:
    call = ProtocolCall("RepositoryModelLoad", b"")
    done, unknown, full = (
        HostReply("n1", ProtocolReply(b"")),
        HostReply("n2", ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, text="no repository has it")),
        HostReply("n3", ProtocolReply(code=grpc.StatusCode.RESOURCE_EXHAUSTED, text="no memory")),
    )
    assert joined(call, [done, done]) is done.reply
    assert joined(call, [unknown, unknown]) is unknown.reply
    assert joined(call, [done, unknown, full]).text == (
        "2 of 3 hosts have not done it: host n2: no repository has it; host n3: no memory"
    )
    over_http = joined(HttpCall("POST", "/v2/repository/models/m/load", "", {}, b""), [])
    assert isinstance(over_http, HttpReply) and over_http.status == 503 and "no host is left" in over_http.text
