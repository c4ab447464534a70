"""A Docker engine: the one that runs, or one of its own that ends with the context."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_until

PACKAGES = ("docker.io", "docker-compose", "iptables")
"""What Debian's engine consists of."""
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_LAZILY = 2
"""MNT_DETACH of umount2(2)."""


class NoEngineError(Exception):
    """No engine runs, and none can be started here. The message says what would help."""


def engine_answers(host: str | None = None) -> bool:
    """Return whether an engine answers at ``host``, such as ``unix:///run/docker.sock``, or where DOCKER_HOST says."""
    if shutil.which("docker") is None:
        return False
    environment = os.environ | ({"DOCKER_HOST": host} if host else {})
    asked = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"],
        env=environment,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return asked.returncode == 0


@contextmanager
def docker_engine(root: Path | None = None) -> Iterator[str]:
    """Yield the address of an engine, as DOCKER_HOST has it; empty for the one that runs already.

    If none runs, Debian's is installed unless it is there, and started below ``root``, which is kept with its images.
    Without ``root`` a directory is made for it and removed afterwards. Raises NoEngineError.
    """
    if engine_answers():
        yield ""
        return
    _install_missing()
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
        with _own_engine(root) as host:
            yield host
        return
    made = Path(tempfile.mkdtemp(prefix="nnhal-engine-"))
    try:
        with _own_engine(made) as host:
            yield host
    finally:
        shutil.rmtree(made)


def install(packages: Sequence[str]) -> None:
    """Install packages of Debian. Raises NoEngineError if that is not possible here."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoEngineError(f"missing: {' '.join(packages)}; to install them takes root and apt-get")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    patient = ["-o", "DPkg::Lock::Timeout=300"]
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *patient, "--quiet=2", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NoEngineError(f"apt-get {arguments[0]} failed: {(done.stderr or done.stdout).strip()[-1000:]}")


def _install_missing() -> None:
    """Install the engine unless it is there. Only root can start one."""
    if os.geteuid() != 0:
        raise NoEngineError("no Docker engine answers, and only root can start one")
    if shutil.which("dockerd") is None or shutil.which("docker") is None:
        install(PACKAGES)


@contextmanager
def _own_engine(root: Path) -> Iterator[str]:
    """Run an engine that leaves the host's firewall, its forwarding and its other engines alone.

    Its containers reach one another over networks of their own, and nothing beyond this host.
    """
    host = f"unix://{root / 'docker.sock'}"
    log = root / "log"
    command = [
        *("dockerd", "--host", host, "--pidfile", str(root / "pid")),
        *("--data-root", str(root / "data"), "--exec-root", str(root / "exec")),
        *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: process.poll() is not None or engine_answers(host), "dockerd answers", _START_SECONDS)
            if process.poll() is not None:
                raise NoEngineError(f"dockerd ended with status {process.returncode}: {log.read_text()[-2000:]}")
            yield host
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            finally:
                process.kill()
                _unmount_below(root)


def _unmount_below(root: Path) -> None:
    """Unmount what containers that did not end in time have left, the innermost first."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    umount = ctypes.CDLL(None, use_errno=True).umount2
    for path in reversed([path for path in mounted if Path(path).is_relative_to(root)]):
        if umount(os.fsencode(path), _LAZILY):
            raise OSError(ctypes.get_errno(), "cannot unmount", path)
