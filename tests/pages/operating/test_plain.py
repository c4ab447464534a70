from __future__ import annotations

import json
from dataclasses import dataclass

from nnhal.types import DeviceType
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_pages.operating.plain import plain, plain_value


def test_all_fields_are_there_with_numbers_as_numbers() -> None:
    process = supervisor_pb2.SupervisedProcess(name="npu", state=supervisor_pb2.SupervisedProcess.STATE_WAITING)
    process.started_ns = 2**53 + 1
    values = plain(process)
    assert list(values) == [field.name for field in process.DESCRIPTOR.fields]
    assert (values["state"], values["started_ns"], values["addresses"]) == ("waiting", 2**53 + 1, [])
    assert json.loads(json.dumps(values)) == values


def test_messages_maps_and_absent_values() -> None:
    assert plain(admin_pb2.GetDeviceResponse())["temperature"] is None
    assert plain(admin_pb2.GetDeviceResponse(temperature=40.5))["temperature"] == 40.5
    answer = framework_admin_pb2.GetFrameworkResponse(addresses={"http": "127.0.0.1:8000"})
    answer.models.add(name="digits", counts=framework_admin_pb2.ModelCounts(requests=3))
    values = plain(answer)
    assert values["addresses"] == {"http": "127.0.0.1:8000"}
    assert values["models"][0]["counts"]["requests"] == 3
    assert values["counts"] is None


def test_an_enumerator_is_a_word_and_an_unknown_one_its_number() -> None:
    assert plain(admin_pb2.GetProcessResponse())["supervisor"] == ""
    assert plain(admin_pb2.GetProcessResponse(supervisor=admin_pb2.SUPERVISOR_SYSTEMD))["supervisor"] == "systemd"
    future = admin_pb2.GetProcessResponse.FromString(bytes([6 << 3, 99]))
    assert plain(future)["supervisor"] == "99"


@dataclass(frozen=True)
class Described:
    type: DeviceType
    kinds: frozenset[str]
    parts: tuple[object, ...]


def test_a_description_is_plain_through_and_through() -> None:
    inner = Described(DeviceType.GPU, frozenset(), ())
    described = Described(DeviceType.CPU, frozenset({"b", "a"}), (1, inner, {DeviceType.GPU: 2.5}))
    assert plain_value(described) == {
        "type": "CPU",
        "kinds": ["a", "b"],
        "parts": [1, {"type": "GPU", "kinds": [], "parts": []}, {"GPU": 2.5}],
    }
    assert plain_value(None) is None
