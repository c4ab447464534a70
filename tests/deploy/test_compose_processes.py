"""The commands, environments and health checks of docker-compose.yml, as processes of this host without containers."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import nnhal_client
from nnhal_tools.health.command import main as health
from tests.deploy.compose_file import ROOT, ComposeService, compose_services, env_file
from tests.support.command import command, nnhal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

_DATA = ROOT / "tools/nnhal_tools/demo/data"
_FOLDERS = {"/run/nnhal": "run", "/secrets": "secrets", "/models": "models", "/history": "history"}
_PORTS = {"HTTP": "8000", "GRPC": "8001", "METRICS": "8002"}
_ADDRESS = re.compile(r"^(\w+): (?:https?://)?0\.0\.0\.0:(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Bed:
    """Folders of the file's services on this host."""

    folder: Path

    def here(self, words: Sequence[str]) -> list[str]:
        return [self._moved(word) for word in words]

    def _moved(self, word: str) -> str:
        for inside, name in _FOLDERS.items():
            word = word.replace(inside, str(self.folder / name))
        return word

    @contextmanager
    def running(self, service: ComposeService) -> Iterator[Path]:
        """Run a service until the context ends. Yields the file of what it says."""
        environment = {name: self._moved(value) for name, value in service.content.get("environment", {}).items()}
        free = {f"NNHAL_SERVICE_{name}_PORT": "0" for name in _PORTS} | {"NNHAL_DASHBOARD_PORT": "0"}
        said = self.folder / f"{service.name}.log"
        with said.open("w") as log:
            process = subprocess.Popen(
                command(self.here(service.argv[1:])), env={**os.environ, **environment, **free}, stderr=log
            )
        try:
            yield said
            assert process.poll() is None, said.read_text()
        finally:
            process.terminate()
            status = process.wait(30)
        assert status == 0, said.read_text()

    def await_health(self, service: ComposeService, ports: Mapping[str, str] | None = None) -> None:
        """Ask as the service's health check does, until it is healthy."""
        words = self.here(service.content["healthcheck"]["test"][3:])
        for inside, port in (ports or {}).items():
            words = [word.replace(f":{inside}/", f":{port}/") for word in words]
        wait_until(lambda: health(words) == 0, f"the health of {service.name}", 60)


def addresses(said: Path) -> dict[str, str]:
    wait_until(lambda: bool(_ADDRESS.search(said.read_text())), "an address", 60)
    return dict(_ADDRESS.findall(said.read_text()))


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """The devices of the file, which run, and credentials, with a certificate that only TLS needs."""
    bed = Bed(tmp_path_factory.mktemp("bed"))
    (bed.folder / "models/digits/1").mkdir(parents=True)
    (bed.folder / "history").mkdir()
    shutil.copy(_DATA / "digits.onnx", bed.folder / "models/digits/1/model.onnx")
    made = nnhal(*bed.here(compose_services(env_file("tls.env"))["secrets"].argv[1:]))
    assert made.returncode == 0, made.stderr
    devices = [service for service in compose_services().values() if service.is_device and not service.profiles]
    with ExitStack() as undo:
        for device in devices:
            undo.enter_context(bed.running(device))
        for device in devices:
            bed.await_health(device)
        yield bed


@pytest.mark.parametrize("env", ["", "tls.env"], ids=["plain", "tls"])
def test_the_processes_of_the_file_start_are_healthy_and_serve_who_has_a_token(bed: Bed, env: str) -> None:
    services = compose_services(env_file(env) if env else {})
    framework, dashboard = services["framework"], services["dashboard"]
    authority = bed.folder / "secrets/clients/ca.pem" if env else None
    context = ssl.create_default_context(cafile=str(authority)) if authority else None
    scheme = "https" if env else "http"
    token = (bed.folder / "secrets/clients/infer.token").read_text().strip()
    with bed.running(framework) as framework_said:
        bed.await_health(framework)
        ports = addresses(framework_said)
        url = f"{scheme}://localhost:{ports['http']}/v2/models/digits"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=context) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, context=context)
        with bed.running(dashboard) as dashboard_said:
            port = addresses(dashboard_said)["dashboard"]
            bed.await_health(dashboard, {"8003": port})
            with urllib.request.urlopen(f"{scheme}://localhost:{port}/", context=context) as answer:
                assert answer.url.partition("?")[0] == f"{scheme}://localhost:{port}/login"


def test_a_device_on_another_host_comes_up_by_the_commands_of_its_file(bed: Bed) -> None:
    file = ROOT / "deploy/compose.remote.yml"
    far = compose_services(file=file)["npu-host"]
    (bed.folder / "far").mkdir(mode=0o700)
    words = [w.replace(":9000", ":0").replace("/tmp/", f"{bed.folder}/far/") for w in far.content["command"]]
    with (
        bed.running(replace(far, content={**far.content, "command": words})) as far_said,
        bed.running(compose_services()["framework"]),
    ):
        near = compose_services({"NNHAL_REMOTE": f"127.0.0.1:{addresses(far_said)['wire']}"}, file)["npu_7"]
        with bed.running(near):
            bed.await_health(near)
            bed.await_health(compose_services()["framework"])
            key = ["--directory=/run/nnhal", "--admin-key=/secrets/operators/admin.key"]
            added = nnhal(*bed.here(["ctl", "add", "npu_7", *key]))
            assert added.returncode == 0, added.stderr
            assert "npu_7" in nnhal(*bed.here(["show", "devices", *key])).stdout


def test_the_client_of_the_file_runs_by_handle(bed: Bed) -> None:
    services = compose_services()
    with bed.running(services["framework"]):
        bed.await_health(services["framework"])
        with nnhal_client.connect(bed.folder / "run/framework") as framework:
            model = framework.load(bed.folder / "models/digits/1/model.onnx")
            report = model.bind(measure_timing=True).run()
        assert report.steps
        assert sum(step.copied_bytes for step in report.steps) == 0
