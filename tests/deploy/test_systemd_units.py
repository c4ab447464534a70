"""systemd's units: what they promise, what systemd says of them, and that their commands serve."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnhal_tools.up import read_topology
from tests.support.command import command

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
_BINARY = "/opt/nnhal/bin/nnhal"


@dataclass(frozen=True, slots=True)
class SystemdUnit:
    """A unit file."""

    name: str
    settings: dict[str, list[str]]
    """All values of each setting, by ``Section.Name``."""

    def words(self, setting: str) -> list[str]:
        return [word for value in self.settings.get(setting, []) for word in value.split()]

    def command(self, instance: str = "") -> list[str]:
        """Return what it runs, after the name of the program, for an instance of a template."""
        (line,) = self.settings["Service.ExecStart"]
        program, *words = shlex.split(line.replace("%i", instance))
        assert program == _BINARY
        return words


def read_unit(path: Path) -> SystemdUnit:
    settings: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(f"{section}.{name}", []).append(value)
    return SystemdUnit(path.name, settings)


def units() -> dict[str, SystemdUnit]:
    kinds = (".service", ".socket", ".target")
    return {path.name: read_unit(path) for path in sorted(FOLDER.iterdir()) if path.suffix in kinds}


UNITS = units()
SERVICES = {name: unit for name, unit in UNITS.items() if name.endswith(".service")}
MOST_EXPOSED = 2.0
"""The most that ``systemd-analyze security`` may find, of 10."""
DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"
SECONDS = 120
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(name: str) -> None:
    unit = SERVICES[name]
    expected = {
        "User": "nnhal",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "MemoryDenyWriteExecute": "yes",
        "RestrictNamespaces": "yes",
        "ReadWritePaths": "/run/nnhal",
    }
    assert {setting: unit.settings[f"Service.{setting}"][0] for setting in expected} == expected


def test_only_what_listens_at_ports_may_open_sockets_of_the_internet() -> None:
    families = {name: set(unit.words("Service.RestrictAddressFamilies")) for name, unit in SERVICES.items()}
    assert families.pop("nnhal-device@.service") == {"AF_UNIX"}
    assert all(each == {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} for each in families.values())


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_started_again_as_often_as_it_dies(name: str) -> None:
    unit = SERVICES[name]
    assert unit.settings["Service.Restart"] == ["on-failure"]
    assert unit.settings["Unit.StartLimitIntervalSec"] == ["0"]
    assert unit.settings["Service.Type"] == ["notify"]
    assert unit.settings["Service.WatchdogSec"] == ["60"]  # what hangs dies of it, which is a failure too


def test_units_that_are_named_exist() -> None:
    names = [
        word
        for unit in UNITS.values()
        for setting in (
            "Unit.Wants",
            "Unit.Requires",
            "Unit.PartOf",
            "Unit.Conflicts",
            "Service.Sockets",
            "Socket.Service",
        )
        for word in unit.words(setting)
    ]
    assert {re.sub("@.*[.]", "@.", name) for name in names} <= UNITS.keys()
    assert {"nnhal-http.socket", "nnhal-metrics.socket", "nnhal-device@cpu_ref.service"} <= set(names)


def test_sockets_listen_on_this_host_alone_and_have_the_names_that_the_framework_takes() -> None:
    found = {
        unit.settings["Socket.FileDescriptorName"][0]: unit.settings["Socket.ListenStream"][0]
        for name, unit in UNITS.items()
        if name.endswith(".socket")
    }
    assert found == {"http": "127.0.0.1:8000", "metrics": "127.0.0.1:8002"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system with the units, and with a program where theirs is."""
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    for name in UNITS:
        shutil.copy(FOLDER / name, folder)
    installed = Path("/usr/lib/systemd/system")
    shutil.copytree(installed, tmp_path / "usr/lib/systemd/system", symlinks=True)
    (tmp_path / "opt/nnhal/bin").mkdir(parents=True)
    (tmp_path / "opt/nnhal/bin/nnhal").touch(0o755)
    return tmp_path


@needs_systemd
def test_systemd_finds_nothing_wrong(root: Path) -> None:
    names = [name.replace("@.", "@cpu_ref.") for name in UNITS]
    analyze = ["systemd-analyze", "verify", f"--root={root}", "--man=no", *names]
    done = subprocess.run(analyze, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_little_that_a_service_exposes(root: Path, name: str) -> None:
    analyze = ["systemd-analyze", "security", f"--root={root}", "--offline=true", name.replace("@.", "@cpu_ref.")]
    done = subprocess.run([*analyze, "--no-pager"], capture_output=True, text=True, check=True)
    found = re.search(r"exposure level for \S+: (\d+\.\d+)", done.stdout)
    assert found is not None
    assert float(found[1]) <= MOST_EXPOSED


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders that tmpfiles.conf makes, below a folder of the test, with a model and a key."""
    folder = tmp_path_factory.mktemp("host")
    for line in (FOLDER / "tmpfiles.conf").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "d":
            (folder / rest.split()[0].lstrip("/")).mkdir(parents=True, exist_ok=True)
    (folder / "var/lib/nnhal/models/digits/1").mkdir(parents=True)
    shutil.copy(DIGITS, folder / "var/lib/nnhal/models/digits/1/model.onnx")
    (folder / "etc/nnhal/admin.key").touch(0o400)
    (folder / "etc/nnhal/admin.key").chmod(0o600)
    (folder / "etc/nnhal/admin.key").write_text("0123456789abcdef\n")
    shutil.copy(FOLDER / "testbed.toml", folder / "etc/nnhal")
    return folder


@contextmanager
def started(host: Path, unit: SystemdUnit, instance: str = "") -> Iterator[None]:
    """Run the command of a unit until the context ends, and wait until it tells systemd that it serves."""
    words = [re.sub("(^|=)/(run|etc|var)/", rf"\1{host}/\2/", word) for word in unit.command(instance)]
    ports = {f"NNHAL_SERVICE_{name}_PORT": "0" for name in ("HTTP", "GRPC", "METRICS")} | {"NNHAL_DASHBOARD_PORT": "0"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = host / f"{unit.name}{instance}"
        manager.bind(str(address))
        manager.settimeout(SECONDS)
        process = subprocess.Popen(command(words), env=os.environ | ports | {"NOTIFY_SOCKET": str(address)})
        try:
            assert manager.recv(100) == b"READY=1"
            yield
            process.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait() == 0
        finally:
            process.kill()
            process.wait()
            address.unlink()


@pytest.mark.slow
def test_the_commands_of_units_serve_together_and_say_so(host: Path) -> None:
    with ExitStack() as stack:
        for instance in ("cpu_acc", "cpu_ref"):
            stack.enter_context(started(host, UNITS["nnhal-device@.service"], instance))
        stack.enter_context(started(host, UNITS["nnhal-serve.service"]))
        stack.enter_context(started(host, UNITS["nnhal-dashboard.service"]))
        assert (host / "run/nnhal/framework/framework.sock").is_socket()


def test_the_topology_is_one_and_the_command_that_gets_it_has_no_unknown_option() -> None:
    assert [device.title for device in read_topology(FOLDER / "testbed.toml").device] == ["cpu_acc", "cpu_ref"]
    assert UNITS["nnhal-up.service"].command() == ["up", "/etc/nnhal/testbed.toml", "--directory", "/run/nnhal"]
