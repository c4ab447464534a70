"""Clients of the containers: by handle from a container beside them, and over TCP from this host."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.arrays import Array
from nnhal_client import connect
from nnhal_tools.demo.digits import INPUT, held_out
from tests.support.tritonclients import Triton, input_of, status_of
from tests.testbed.bed import FRAMEWORK, ContainerBed

pytestmark = pytest.mark.testbed
APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
PORTS = {"http": 8000, "grpc": 8001}
CONTROL_BYTES = 2048
"""More than the control messages of a run take, and far less than a tensor."""


def test_the_demo_runs_by_handle_across_containers(bed: ContainerBed) -> None:
    found = bed.in_client("demo.py", FRAMEWORK)
    assert set(found) == {"float32", "int8"}
    for result in found.values():
        assert result["accuracy"] > 0.95
        assert len(set(result["steps"])) > 1 and "cpu_ref" in result["steps"]


def test_no_byte_of_a_tensor_goes_over_a_socket_or_is_copied(bed: ContainerBed) -> None:
    answer = bed.in_client("large_tensors.py", FRAMEWORK, "cpu_acc", "cpu_ref")
    assert answer["right"] and answer["steps"] == ["cpu_acc", "cpu_ref"]
    assert answer["tensor_bytes"] == 3 * (16 << 20)
    assert answer["socket_bytes"] + answer["client_socket_bytes"] < CONTROL_BYTES
    assert answer["staged_bytes"] == 0
    assert [entry["copied_bytes"] for entry in answer["ledger"]] == [0, 0, 0]
    assert {entry["bytes"] for entry in answer["ledger"]} == {16 << 20}


def test_launches_wait_for_fences_of_other_containers(bed: ContainerBed) -> None:
    answer = bed.in_client("fenced.py", FRAMEWORK, "cpu_acc", "cpu_ref")
    assert answer == {"pending": [True, True], "right": True}


@pytest.mark.parametrize(("service", "said"), [("client", "run 4: .* 0 bytes copied"), ("remote", "digits")])
def test_the_clients_of_the_file_run(bed: ContainerBed, service: str, said: str) -> None:
    assert re.search(said, bed.project.run("--profile", "test", "run", "--rm", "-T", service))


@pytest.fixture(params=list(APIS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def classes(client: Triton, images: Array, **options: Any) -> Array:
    answers = [client.infer("digits", {INPUT: image[np.newaxis]}, **options) for image in images]
    (output,) = client.shown("get_model_metadata", "digits", headers=options["headers"])["outputs"]
    return np.array([answer.as_numpy(output["name"]).argmax() for answer in answers])


def test_tritonclient_classifies_digits_with_a_token(bed: ContainerBed, protocol: str) -> None:
    digits = held_out()
    address = bed.address("framework", PORTS[protocol])
    with Triton(protocol, APIS[protocol], address) as client:
        found = classes(client, digits.images[:20], headers=bed.bearer("infer"))
    assert (found == digits.labels[:20]).mean() >= 0.9


def test_who_shows_no_token_or_one_that_may_only_look_runs_nothing(bed: ContainerBed, protocol: str) -> None:
    image = held_out().images[:1]
    refused = {"http": ("401", "403"), "grpc": ("UNAUTHENTICATED", "PERMISSION_DENIED")}[protocol]
    with Triton(protocol, APIS[protocol], bed.address("framework", PORTS[protocol])) as client:
        for status, headers in zip(refused, ({}, bed.bearer("view")), strict=True):
            with pytest.raises(InferenceServerException) as caught:
                client.client.infer("digits", [input_of(client.api, INPUT, image)], headers=headers)
            assert status_of(caught.value) == status


def test_a_client_of_another_host_runs_with_bytes(bed: ContainerBed) -> None:
    digits = held_out()
    with connect(bed.address("framework", 8001), token=bed.tokens["infer"]) as server:
        model = server.open("digits")
        assert model.transport == "v2"  # the directory of sockets is in a volume that this host does not see
        (output,) = model.run({INPUT: digits.images[:1]}).values()
    assert np.asarray(output).argmax() == digits.labels[0]


def test_metrics_are_for_who_may_look(bed: ContainerBed) -> None:
    ask: Callable[..., httpx.Response] = httpx.get
    url = f"http://{bed.address('framework', 8000)}/v2/models/digits"
    assert ask(url).status_code == 401
    assert ask(url, headers=bed.bearer("view")).json()["name"] == "digits"


def test_sessions_of_other_containers_are_shown_as_such(bed: ContainerBed) -> None:
    assert "another container" in bed.nnhal("ps", "--sessions")
    for name, process in bed.observed()["processes"].items():
        owners = {session["client_name"]: session["pid"] for session in process["sessions"]}
        assert set(owners.values()) == {0}, (name, owners)
