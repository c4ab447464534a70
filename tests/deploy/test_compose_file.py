"""docker-compose.yml: what every service promises, and that both generations of Compose take it. Nothing is started."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from nnhal_tools.cli.app import COMMANDS
from tests.deploy.compose_file import FILE, ROOT, compose_file, compose_services, env_file, variables

SERVICES = compose_services()
ENV_FILES = ("tls.env", "observability.env")


PULLED = {"NNHAL_PULL": "if_not_present", "NNHAL_BUILD": "if_not_present"}
"""What deploy/publish writes, besides the names of images."""


@pytest.mark.parametrize("given", [{}, PULLED, *map(env_file, ENV_FILES)], ids=["plain", "pulled", *ENV_FILES])
def test_it_is_what_the_published_schema_of_compose_says(given: dict[str, str]) -> None:
    package = find_spec("check_jsonschema")  # only its copy of the schema is needed
    if package is None or package.origin is None:
        pytest.skip("check-jsonschema, which brings the schema, is not installed")
    schema = Path(package.origin).parent / "builtin_schemas/vendor/compose-spec.json"
    validator = jsonschema_rs.validator_for(json.loads(schema.read_text()))
    assert [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(compose_file(given))] == []


def test_nothing_is_in_it_that_the_older_compose_refuses() -> None:
    content = compose_file()
    assert {key for key in content if not key.startswith("x-")} == {"services", "networks", "volumes"}
    refused = {"start_interval", "gpus", "additional_contexts", "post_start", "pre_stop", "pids", "develop", "required"}
    assert refused.isdisjoint(_keys(content))
    policies = {service.get("pull_policy") for service in compose_file(PULLED)["services"].values()}
    assert policies <= {None, "always", "never", "if_not_present", "build"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(name: str) -> None:
    service = SERVICES[name].content
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] == 512
    assert service["cpus"] > 0
    assert re.fullmatch(r"\d+[MG]", service["mem_limit"])
    # Compose 2.26 refuses pids_limit beside limits of 'deploy', and Compose 1.29 their limit of processes.
    assert "limits" not in service.get("deploy", {}).get("resources", {})
    assert {"privileged", "cap_add", "pid", "ipc", "userns_mode", "devices"}.isdisjoint(service)


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if service.runs_on])
def test_what_runs_on_is_started_again_and_asked_for_its_health(name: str) -> None:
    service = SERVICES[name].content
    assert service["restart"] == "unless-stopped"
    if name == "otel-collector":
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["healthcheck"]["interval"] == "10s"


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_this_host_alone(name: str) -> None:
    for port in SERVICES[name].content.get("ports", ()):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_exists(name: str) -> None:
    volumes = compose_file()["volumes"]
    for source in SERVICES[name].mounts.values():
        assert (ROOT / source).is_dir() if source.startswith(".") else source in volumes


def test_devices_have_no_network_and_no_token() -> None:
    devices = [service for service in SERVICES.values() if service.is_device]
    assert len(devices) == 7
    for device in devices:
        assert device.content["network_mode"] == "none"
        assert set(device.mounts) == {"/run/nnhal", "/secrets/operators"}


def test_only_who_needs_a_secret_has_it() -> None:
    holders: dict[str, set[str]] = {}
    for service in SERVICES.values():
        for target in service.mounts:
            holders.setdefault(target, set()).add(service.name)
    assert holders["/secrets/clients"] == {"secrets", "remote", "prometheus"}
    assert holders["/secrets/servers"] == {"secrets", "framework", "dashboard"}
    assert {"client", "remote", "prometheus", "grafana", "otel-collector"}.isdisjoint(holders["/secrets/operators"])


def test_the_framework_knows_every_device_that_is_always_there() -> None:
    directories = {
        service.name: service.argv[service.argv.index("--endpoint") + 1]
        for service in SERVICES.values()
        if service.is_device and not service.profiles
    }
    known = [word.removeprefix("--device=") for word in SERVICES["framework"].argv if word.startswith("--device=")]
    assert dict(word.split("=") for word in known) == directories
    assert set(SERVICES["framework"].content["depends_on"]) == set(directories)


def test_every_service_waits_for_those_that_are_there_when_it_is() -> None:
    for service in SERVICES.values():
        for needed, how in service.content.get("depends_on", {}).items():
            assert set(SERVICES[needed].profiles) <= set(service.profiles), service.name
            expected = "service_healthy" if SERVICES[needed].runs_on else "service_completed_successfully"
            assert how["condition"] == expected


def test_a_variable_has_one_default_but_for_the_command_that_needs_none() -> None:
    assert {name: defaults for name, defaults in variables().items() if len(defaults) != 1} == {}
    assert FILE.read_text().count("${") == sum(FILE.read_text().count(f"${{{name}:-") for name in variables())


@pytest.mark.parametrize("name", ENV_FILES)
def test_a_file_of_variables_sets_what_the_file_reads(name: str) -> None:
    assert set(env_file(name)) - {"COMPOSE_PROFILES"} <= set(variables())
    profiles = {profile for service in SERVICES.values() for profile in service.profiles}
    assert {env_file(name).get("COMPOSE_PROFILES", "test")} <= profiles


def test_the_documentation_names_every_service_and_every_variable() -> None:
    told = (ROOT / "docs/deploy.md").read_text()
    assert [name for name in (*SERVICES, *variables()) if f"`{name}`" not in told] == []


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if service.is_nnhal])
def test_commands_are_those_of_nnhal(name: str) -> None:
    program, command, *arguments = SERVICES[name].argv
    assert program == "nnhal"
    loaded = COMMANDS[command].load(command)
    with loaded.make_context(command, arguments) as context:
        assert context.command is loaded


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for child in value.values() for key in _keys(child)}
    if isinstance(value, list):
        return {key for child in value for key in _keys(child)}
    return set()
