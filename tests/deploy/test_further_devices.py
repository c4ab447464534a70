"""deploy/compose.*.yml, which add devices to docker-compose.yml: what they promise, without Docker."""

from __future__ import annotations

import re

import pytest

from nnhal_devices.driver import DriverOptions
from nnhal_devices.registry import driver_names
from nnhal_devices.remote.options import RemoteOptions
from tests.deploy.compose_file import ROOT, ComposeService, compose_file, compose_services

FILES = ("compose.more.yml", "compose.remote.yml")
ADDED = {name: service for file in FILES for name, service in compose_services(file=ROOT / "deploy" / file).items()}
_SHARED = ("user", "read_only", "cap_drop", "security_opt", "pids_limit", "restart", "tmpfs", "pull_policy", "image")
_OPTION = "--option="


@pytest.mark.parametrize("name", ADDED)
def test_a_further_device_has_the_rights_and_limits_of_the_others(name: str) -> None:
    other, service = compose_services()["cpu_acc"].content, ADDED[name].content
    assert {key: service[key] for key in _SHARED} == {key: other[key] for key in _SHARED}
    assert (service["cpus"], service["mem_limit"]) == (other["cpus"], other["mem_limit"])
    health = {key: value for key, value in service["healthcheck"].items() if key != "test"}
    assert health == {key: value for key, value in other["healthcheck"].items() if key != "test"}
    assert "ports" not in service


@pytest.mark.parametrize("name", ADDED)
def test_a_further_device_is_asked_for_its_health_where_it_serves(name: str) -> None:
    service = ADDED[name]
    assert service.is_device and service.argv[3] in driver_names()
    assert service.content["healthcheck"]["test"] == ["CMD", "nnhal", "health", endpoint_of(service)]


@pytest.mark.parametrize("name", ADDED)
def test_what_a_further_device_uses_is_in_the_file_that_it_is_added_to(name: str) -> None:
    content, service = compose_file(), ADDED[name]
    assert set(service.mounts.values()) <= set(content["volumes"])
    assert set(service.content.get("networks", ())) <= set(content["networks"])
    assert set(service.content["depends_on"]) <= set(content["services"])


@pytest.mark.parametrize("name", [name for name, service in ADDED.items() if "run" in service.mounts.values()])
def test_a_device_of_the_framework_is_called_as_its_directory(name: str) -> None:
    assert endpoint_of(ADDED[name]) == f"/run/nnhal/{name}"


def test_the_other_host_shares_no_file_with_the_framework_but_the_tokens() -> None:
    assert ADDED["npu-host"].mounts == {"/secrets/servers": "servers"}


def test_the_commands_at_its_head_bring_up_both_ends() -> None:
    head = (ROOT / "deploy/compose.remote.yml").read_text()
    command = r"^# +docker compose -f \S+ -f deploy/compose.remote.yml up -d --wait (.+)$"
    (started,) = re.findall(command, head, re.MULTILINE)
    assert set(started.split()) == {"npu-host", "npu_7"}


@pytest.mark.parametrize("remote", ["npu-host:9000", "npu.example:7000"])
def test_the_near_end_connects_where_the_user_says(remote: str) -> None:
    file = ROOT / "deploy/compose.remote.yml"
    words = compose_services({"NNHAL_REMOTE": remote}, file)["npu_7"].argv
    given = dict(word.removeprefix(_OPTION).split("=", 1) for word in words if word.startswith(_OPTION))
    assert RemoteOptions.of(DriverOptions(1, given)).place == f"tcp://{remote}"


def endpoint_of(service: ComposeService) -> str:
    words = " ".join(service.argv).replace("=", " ").split()
    return words[words.index("--endpoint") + 1]
