"""The nnhal of one host: ``nnhal up`` in a directory of its own."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import ray

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.given_files import MOST_TEXT_BYTES, open_given_file, read_given_file
from nnhal.remote.admin import FrameworkAdmin
from nnhal.remote.supervisor import SupervisorControl
from nnhal.whole_files import write_whole
from nnhal_hosting.supervision import Child
from nnhal_ray.options import ScaleOutOptions

_PREFIX = "nnhal-ray-"
_LOCK = "lock"
_HOSTS = "hosts.toml"
_DASHBOARD = re.compile(r"dashboard: (https?://\S+)$")
_STARTING_SECONDS = 660.0
"""A framework has ten minutes to load its models, and devices start before it."""
_CLIENT_NAME = "nnhal-ray"
_PATIENCE_SECONDS = 5.0


class HostTestbed(Closing):
    """Devices and a framework, which end with this object, and with this process however that ends.

    The framework's ports of HTTP and metrics are free ones of the loopback interface; the topology may say otherwise.
    """

    def __init__(self, options: ScaleOutOptions, name: str) -> None:
        """Start them and wait until they serve; ``name`` is what the host is called.

        Raises StartError if they do not, OSError for a bad directory.
        """
        self.name = name
        self.dashboard = ""
        """The address of the dashboard; empty if there is none, or none yet."""
        self._options = options
        self._address = ray.util.get_node_ip_address()
        with ExitStack() as undo:
            self.directory = undo.enter_context(_directory())
            self.name_hosts([])
            self._child = Child(
                "nnhal_tools", _words(options, self.directory), heard=self._hear, variables=self._variables()
            )
            undo.callback(self._child.stop)
            self._child.wait_until_ready(_STARTING_SECONDS)
            self._undo = undo.pop_all()

    @property
    def framework(self) -> Path:
        """The directory of the framework."""
        return self.directory / "framework"

    @property
    def has_ended(self) -> bool:
        """Whether the supervisor of the processes has ended, and they with it."""
        return self._child.process.poll() is not None

    def addresses(self) -> dict[str, str]:
        """The addresses of the framework's V2 servers by protocol, which change when it is started again.

        Raises NnhalError if the framework cannot be asked.
        """
        with SupervisorControl(self.directory, _CLIENT_NAME, _PATIENCE_SECONDS) as supervisor:
            key = supervisor.admin_key()
        endpoint = Endpoint(self.framework, "framework")
        with FrameworkAdmin(endpoint, key, _CLIENT_NAME, _PATIENCE_SECONDS) as admin:
            return dict(admin.framework().addresses)

    def framework_pid(self) -> int:
        """The process of the framework, 0 if it does not run. Raises NnhalError if the supervisor cannot be asked."""
        with SupervisorControl(self.directory, _CLIENT_NAME, _PATIENCE_SECONDS) as supervisor:
            found = {process.name: process.pid for process in supervisor.processes().processes}
        return found.get("framework", 0)

    def name_hosts(self, dashboards: Sequence[tuple[str, str]]) -> None:
        """Tell the dashboard of those of all hosts, by their names. Raises OSError."""
        lines = [f"name = {json.dumps(self.name)}"]
        if self._options.view_token is not None:
            lines.append(f"token = {json.dumps(str(self._options.view_token))}")
        for name, address in dashboards:
            if address and name != self.name:
                lines += ["[[host]]", f"name = {json.dumps(name)}", f"url = {json.dumps(address)}"]
        text = "".join(f"{line}\n" for line in lines).encode()
        path = self.directory / _HOSTS
        if not path.exists() or read_given_file(path, MOST_TEXT_BYTES, "hosts") != text:
            write_whole(path, text)

    def close(self) -> None:
        """End the processes, and remove their directory."""
        self._undo.close()

    def _hear(self, line: str) -> None:
        """Take the address of the dashboard from what it says when it serves."""
        found = _DASHBOARD.search(line)
        if found is not None:
            self.dashboard = found[1].replace("//0.0.0.0:", f"//{self._address}:")

    def _variables(self) -> dict[str, str]:
        """The settings of the framework and of the dashboard, unless the topology says otherwise."""
        options = self._options
        loaded = [] if options.models_per_host else ["*"]
        return {
            "NNHAL_SERVICE_MODEL_REPOSITORY": json.dumps([str(path) for path in options.model_repository]),
            "NNHAL_SERVICE_MODEL_CONTROL_MODE": "explicit",
            "NNHAL_SERVICE_LOAD_MODEL": json.dumps(loaded),
            "NNHAL_SERVICE_HTTP_MAX_INPUT_SIZE": str(options.max_body),
            "NNHAL_SERVICE_HTTP_PORT": "0",
            "NNHAL_SERVICE_GRPC_PORT": "0",
            "NNHAL_SERVICE_METRICS_PORT": "0",
            "NNHAL_DASHBOARD_HOSTS": str(self.directory / _HOSTS),
            "NNHAL_DASHBOARD_PORT": "0",
            **({} if options.tokens is None else {"NNHAL_DASHBOARD_TOKENS": str(options.tokens)}),
        }


def _words(options: ScaleOutOptions, directory: Path) -> list[str]:
    """The command line."""
    topology = [] if options.topology is None else [str(options.topology)]
    return ["up", *topology, "--directory", str(directory), *([] if options.dashboard else ["--no-dashboard"])]


@contextmanager
def _directory() -> Iterator[Path]:
    """A new directory for sockets, with a lock that is held as long as this process lives.

    Those of processes that were killed are removed first.
    """
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_PREFIX}*"):
        _remove_if_left(left)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (directory / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_if_left(directory: Path) -> None:
    """Remove the directory of a process that is gone; one that is being made has no lock yet, and stays."""
    # It may be another user's, or one that another process removes.
    with suppress(OSError, ValueError), open_given_file(directory / _LOCK, "a lock", follows=False) as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory)
