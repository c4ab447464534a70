"""Nodes of a Ray cluster, as nnhal starts them: at the loopback unless others are to join, and closed by a token."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nnhal.contexts import Closing
from nnhal.errors import NnhalError

LOOPBACK = "127.0.0.1"
STARTING_SECONDS = 180.0
_LOOK_SECONDS = 0.25
_STOP_SECONDS = 30.0
_STARTED = "Ray runtime started"
_SHOWN_LINES = 12
_LARGEST = 2**31 - 1
_REPEATED_BYTES = 1 << 20
"""Requests up to about this length are kept until they are answered, and asked again of another host if theirs ends."""
_STORE_BYTES = 100_000_000
"""Tensors do not go through Ray's object store."""


class NodeError(NnhalError):
    """A node that has not started, or has ended. The message has what it said last."""


def new_token(path: Path) -> None:
    """Write the token of a cluster, which its owner alone may read. Raises OSError if there is such a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32))


def environment(directory: Path, token: Path, address: str = LOOPBACK) -> dict[str, str]:
    """The variables of a node and of what deploys on it. Those that are set already stay, but for who may join.

    ``directory`` is for files of HAProxy and of hosts, ``token`` the file with the cluster's token, ``address`` that of
    this host.
    """
    ours = {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(_LARGEST),
        "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response",
        "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": str(_REPEATED_BYTES),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(directory / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(directory / "admin.sock"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(directory / "metrics.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(directory),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(directory / "server-state"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": f"{STARTING_SECONDS:.0f}",
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }
    forced = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        # As on systems whose firewalls would ask: the node's address is the loopback's, and nothing listens elsewhere.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": str(int(address != LOOPBACK)),
        "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR": "nnhal_ray.worker_setup.set_up",
        "TMPDIR": str(directory),  # of hosts, which are killed with the node
    }
    path = ours.pop("PATH")
    return {**ours, **os.environ, **forced, "PATH": path}


class RayNode(Closing):
    """A node of Ray on this host, until it is closed."""

    def __init__(
        self, directory: Path, variables: Mapping[str, str], role: Sequence[str], resources: Mapping[str, float]
    ) -> None:
        """Start it, and wait until it runs. ``role`` are the options of ``ray start`` that say what it is.

        Raises NodeError.
        """
        self._directory = directory
        self._log = directory / "ray.log"
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *role]
        words += [f"--object-store-memory={_STORE_BYTES}", f"--resources={json.dumps(dict(resources))}"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                words, env=dict(variables), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            end = time.monotonic() + STARTING_SECONDS
            while _STARTED not in self._log.read_text(errors="replace"):
                self.require_runs()
                if time.monotonic() > end:
                    raise NodeError(f"Ray has not started on this host within {STARTING_SECONDS:.0f} s")
                time.sleep(_LOOK_SECONDS)
        except BaseException:
            self.close()
            raise

    def require_runs(self) -> None:
        """Raises NodeError if it has ended."""
        if self._process.poll() is not None:
            lines = self._log.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
            raise NodeError("Ray has ended on this host: " + "\n".join(lines))

    def close(self) -> None:
        """End it, and what runs on it."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _end_proxies(self._directory)


def _end_proxies(directory: Path) -> None:
    """End the HAProxy of a node: it outlives a proxy of Ray's that is killed, and would hold its ports."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            program, *arguments = path.read_bytes().split(b"\0")
            if program.endswith(b"haproxy") and any(each.startswith(os.fsencode(directory)) for each in arguments):
                os.kill(int(path.parent.name), signal.SIGKILL)
