"""Permissions of the containers, as the engine has them."""

from __future__ import annotations

import pytest

from tests.support.waiting import wait_until
from tests.testbed.bed import DEVICES, ContainerBed
from tests.testbed.compose import ContainerCommandError

pytestmark = pytest.mark.testbed
SERVICES = (*DEVICES, "framework", "dashboard")


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_rights_that_it_does_not_need(bed: ContainerBed, service: str) -> None:
    inspected = bed.project.container(service).inspected
    host = inspected["HostConfig"]
    assert inspected["Config"]["User"] == "10001:10001"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Privileged"]
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert host["Memory"] > 0 and host["NanoCpus"] > 0 and host["PidsLimit"] > 0
    assert host["PidMode"] == "" and host["IpcMode"] == "private"
    assert host["RestartPolicy"]["Name"] == "unless-stopped"


@pytest.mark.parametrize("service", ("cpu_acc", "framework", "dashboard"))
def test_the_kernel_holds_a_process_to_it(bed: ContainerBed, service: str) -> None:
    container = bed.project.container(service)
    status = dict(line.split(":", 1) for line in container.run("cat", "/proc/1/status").splitlines())
    assert status["Uid"].split() == ["10001"] * 4
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    with pytest.raises(ContainerCommandError, match="Read-only file system"):
        container.run("touch", "/opt/nnhal/written")
    with pytest.raises(ContainerCommandError, match="Read-only file system"):
        container.run("touch", "/written")


@pytest.mark.parametrize("service", DEVICES)
def test_a_device_has_no_network(bed: ContainerBed, service: str) -> None:
    container = bed.project.container(service)
    assert container.inspected["HostConfig"]["NetworkMode"] == "none"
    assert container.run("ls", "/sys/class/net").split() == ["lo"]


def test_no_port_is_published_beyond_this_host(bed: ContainerBed) -> None:
    published = {
        (service, binding["HostIp"])
        for service in SERVICES
        for bindings in bed.project.container(service).inspected["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    }
    assert published == {("framework", "127.0.0.1"), ("dashboard", "127.0.0.1")}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_healthy_by_a_check_of_its_own(bed: ContainerBed, service: str) -> None:
    container = bed.project.container(service)
    assert container.inspected["Config"]["Healthcheck"]["Test"][:3] == ["CMD", "nnhal", "health"]
    wait_until(lambda: container.healthy, f"{service} is healthy")


def test_a_container_has_only_the_secrets_that_it_needs(bed: ContainerBed) -> None:
    for service in SERVICES:
        mounted = {mount["Destination"] for mount in bed.project.container(service).inspected["Mounts"]}
        assert "/secrets/clients" not in mounted
        assert ("/secrets/servers" in mounted) == (service in ("framework", "dashboard"))
