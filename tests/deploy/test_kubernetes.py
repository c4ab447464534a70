"""The example for Kubernetes: what it promises, its schema, and that its commands serve with its settings."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.certificates import authority, signed
from tests.support.command import command
from tests.support.tokens import token_file
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy/kubernetes/nnhal.yaml"
DOCUMENTS: dict[str, Any] = {document["kind"]: document for document in yaml.safe_load_all(FILE.read_text())}
POD = DOCUMENTS["Deployment"]["spec"]["template"]["spec"]
SIDECARS = [container for container in POD["initContainers"] if container.get("restartPolicy") == "Always"]
CONTAINERS: dict[str, Any] = {container["name"]: container for container in [*SIDECARS, *POD["containers"]]}
VALIDATE = os.environ.get("NNHAL_KUBERNETES_VALIDATE", "")


@pytest.mark.skipif(not VALIDATE, reason="kubernetes-validate is not there; 'make deploy-check' installs it")
def test_it_is_what_the_published_schema_says() -> None:
    done = subprocess.run([VALIDATE, "--strict", str(FILE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("ERROR") + done.stderr.count("ERROR")) == (0, 0), done.stderr


def test_pods_have_no_rights_that_they_do_not_need() -> None:
    security = POD["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 10001, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"}.isdisjoint(POD)
    for container in [*POD["initContainers"], *POD["containers"]]:
        of_the_volume = {"runAsUser": 0, "runAsNonRoot": False} if container["name"] == "run-folder" else {}
        assert container["securityContext"] == {
            **of_the_volume,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]) == {"requests", "limits"}


def test_variables_of_services_do_not_become_options() -> None:
    assert POD["enableServiceLinks"] is False


def test_devices_end_after_their_framework() -> None:
    assert POD["initContainers"][-len(SIDECARS) :] == SIDECARS  # after the folder of sockets is made
    assert [each["args"][0] for each in SIDECARS] == ["device"] * 2
    assert [each["args"][0] for each in POD["containers"]] == ["serve", "dashboard"]


def test_every_container_that_stays_is_asked_whether_it_lives() -> None:
    assert all("livenessProbe" in container for container in CONTAINERS.values())


def test_devices_have_sockets_and_no_secrets() -> None:
    for container in CONTAINERS.values():
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        kept = {"serve": {"models", "tokens", "tls"}, "dashboard": {"history", "tokens", "tls"}}
        assert mounts == {"run", "tmp"} | kept.get(container["args"][0], set())
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert volumes["run"]["emptyDir"]["medium"] == "Memory"


def test_the_framework_knows_the_devices_of_the_pod() -> None:
    directories = {
        container["args"][1]: container["args"][3]
        for container in CONTAINERS.values()
        if container["args"][0] == "device"
    }
    known = [word.removeprefix("--device=") for word in CONTAINERS["framework"]["args"] if word.startswith("--device=")]
    assert dict(word.split("=") for word in known) == directories


def test_each_process_is_asked_for_its_health_at_its_own_endpoint() -> None:
    for name, container in CONTAINERS.items():
        for kind in ("startupProbe", "livenessProbe"):
            if name != "dashboard":
                (endpoint,) = re.findall(r"--endpoint[ =](\S+)", " ".join(container["args"]))
                assert container[kind]["exec"]["command"] == ["nnhal", "health", endpoint]


def test_the_service_has_the_ports_of_the_containers() -> None:
    named = {port["name"]: port["containerPort"] for each in CONTAINERS.values() for port in each.get("ports", ())}
    assert named == {"http": 8000, "grpc": 8001, "metrics": 8002, "dashboard": 8003}
    service = DOCUMENTS["Service"]["spec"]
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == named
    labels = DOCUMENTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == DOCUMENTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels


def test_clients_and_prometheus_reach_their_ports_and_nothing_leaves_the_pod() -> None:
    policy = DOCUMENTS["NetworkPolicy"]["spec"]
    labels = DOCUMENTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert (policy["podSelector"]["matchLabels"], policy["policyTypes"]) == (labels, ["Ingress", "Egress"])
    assert policy["egress"] == []
    assert [[port["port"] for port in rule["ports"]] for rule in policy["ingress"]] == [["http", "grpc"], ["metrics"]]


def test_the_operator_of_prometheus_scrapes_the_port_of_metrics_by_the_job_of_the_rules() -> None:
    monitor = yaml.safe_load(FILE.with_name("servicemonitor.yaml").read_text())["spec"]
    service = DOCUMENTS["Service"]["metadata"]["labels"]
    assert (monitor["selector"]["matchLabels"], service[monitor["jobLabel"]]) == (service, "nnhal")
    (endpoint,) = monitor["endpoints"]
    ports = {port["name"] for port in DOCUMENTS["Service"]["spec"]["ports"]}
    assert endpoint["port"] in ports
    assert endpoint["scheme"] == "https"


class Pod:
    """The folders that containers of the pod have mounted, on this host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run/nnhal").mkdir(parents=True)
        (folder / "etc/nnhal/tls").mkdir(parents=True)
        (folder / "etc/nnhal/tokens").mkdir()
        token_file(folder / "etc/nnhal/tokens", ci="infer")
        pair = signed(folder, "server", authority(folder, "ca"))
        shutil.copy(pair.certificate, folder / "etc/nnhal/tls/tls.crt")
        shutil.copy(pair.key, folder / "etc/nnhal/tls/tls.key")
        for kept in ("models", "history"):
            (folder / "var/lib/nnhal" / kept).mkdir(parents=True)
        (folder / "models/digits/1").mkdir(parents=True)
        shutil.copy(ROOT / "tools/nnhal_tools/demo/data/digits.onnx", folder / "models/digits/1/model.onnx")

    def here(self, word: str) -> str:
        return re.sub("(^|[= ])/(run|etc|models|var)", rf"\1{self.folder}/\2", word)

    @contextmanager
    def running(self, name: str) -> Iterator[dict[str, str]]:
        """Run a container's command until the context ends. Yields the addresses that it says it serves at."""
        settings = {key: self.here(value) for key, value in DOCUMENTS["ConfigMap"]["data"].items()}
        ports = {f"NNHAL_SERVICE_{port}_PORT": "0" for port in ("HTTP", "GRPC", "METRICS")}
        settings |= ports | {"NNHAL_DASHBOARD_PORT": "0", "NNHAL_DEVICE_LOG_JSON": "false"}
        said = self.folder / f"{name}.log"
        words = [self.here(word) for word in CONTAINERS[name]["args"]]
        with said.open("w") as log:
            process = subprocess.Popen(command(words), env=os.environ | settings, stderr=log)
        endpoint = self.folder / "run/nnhal" / words[-1] if words[0] == "device" else self.folder
        last = "dashboard: " if name == "dashboard" else "metrics: " if name == "framework" else ""
        try:
            wait_until(
                lambda: (
                    process.poll() is not None
                    or (last in said.read_text() if last else (endpoint / "device.sock").is_socket())
                ),
                f"{name} serves",
            )
            assert process.poll() is None, said.read_text()
            lines = (line.partition(": ") for line in said.read_text().splitlines())
            yield {protocol: address for protocol, colon, address in lines if colon}
        finally:
            process.terminate()
            process.wait()


@pytest.mark.slow
def test_the_containers_serve_together_with_tls_and_tokens(short_path: Path) -> None:
    pod = Pod(short_path)
    script = pod.here(POD["initContainers"][0]["command"][2])
    subprocess.run(["sh", "-c", script], check=True)
    trusted = ssl.create_default_context(cafile=str(short_path / "ca.pem"))
    with ExitStack() as stack:
        for name in ("cpu-acc", "cpu-ref"):
            stack.enter_context(pod.running(name))
        framework = stack.enter_context(pod.running("framework"))
        dashboard = stack.enter_context(pod.running("dashboard"))
        port = framework["http"].rpartition(":")[2]

        def is_ready() -> bool:
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{port}/v2/health/ready", context=trusted) as answer:
                    return bool(answer.status == 200)
            except urllib.error.HTTPError:
                return False

        wait_until(is_ready, "digits is loaded")
        port = dashboard["dashboard"].rpartition(":")[2]
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/login", context=trusted) as answer:
            assert answer.status == 200
