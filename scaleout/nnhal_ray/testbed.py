"""The nnhal of one host: ``nnhal up`` in a directory of its own."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.remote.admin import FrameworkAdmin
from nnhal.remote.supervisor import SupervisorControl
from nnhal_hosting.supervision import Child
from nnhal_ray.options import ScaleOutOptions

_STARTING_SECONDS = 660.0
"""A framework has ten minutes to load its models, and devices start before it."""
_CLIENT_NAME = "nnhal-ray"
_PATIENCE_SECONDS = 5.0


class HostTestbed(Closing):
    """Devices and a framework, which end with this object, and with this process however that ends.

    The framework's ports of HTTP and metrics are free ones of the loopback interface; the topology may say otherwise.
    """

    def __init__(self, options: ScaleOutOptions) -> None:
        """Start them and wait until they serve. Raises StartError if they do not, OSError for a bad directory."""
        with ExitStack() as undo:
            directory = tempfile.TemporaryDirectory(prefix="nnhal-ray-", ignore_cleanup_errors=True)
            self.directory = Path(undo.enter_context(directory))
            topology = [] if options.topology is None else [str(options.topology)]
            words = ["up", *topology, "--directory", str(self.directory)]
            words += [] if options.dashboard else ["--no-dashboard"]
            self._child = Child("nnhal_tools", words, variables=_variables(options))
            undo.callback(self._child.stop)
            self._child.wait_until_ready(_STARTING_SECONDS)
            self._undo = undo.pop_all()

    @property
    def framework(self) -> Path:
        """The directory of the framework."""
        return self.directory / "framework"

    @property
    def has_ended(self) -> bool:
        """Return whether the supervisor of the processes has ended, and they with it."""
        return self._child.process.poll() is not None

    def http_address(self) -> str:
        """Return where the framework serves HTTP, which changes when it is started again.

        Raises NnhalError if the framework cannot be asked.
        """
        with SupervisorControl(self.directory, _CLIENT_NAME, _PATIENCE_SECONDS) as supervisor:
            key = supervisor.admin_key()
        endpoint = Endpoint(self.framework, "framework")
        with FrameworkAdmin(endpoint, key, _CLIENT_NAME, _PATIENCE_SECONDS) as admin:
            return admin.framework().addresses["http"]

    def framework_pid(self) -> int:
        """The process of the framework, 0 if it does not run. Raises NnhalError if the supervisor cannot be asked."""
        with SupervisorControl(self.directory, _CLIENT_NAME, _PATIENCE_SECONDS) as supervisor:
            found = {process.name: process.pid for process in supervisor.processes().processes}
        return found.get("framework", 0)

    def close(self) -> None:
        """End the processes, and remove their directory."""
        self._undo.close()


def _variables(options: ScaleOutOptions) -> dict[str, str]:
    """The settings of the framework and of the dashboard, unless the topology says otherwise."""
    return {
        "NNHAL_SERVICE_MODEL_REPOSITORY": json.dumps([str(path) for path in options.model_repository]),
        "NNHAL_SERVICE_MODEL_CONTROL_MODE": "explicit",
        "NNHAL_SERVICE_LOAD_MODEL": json.dumps(["*"]),
        "NNHAL_SERVICE_HTTP_MAX_INPUT_SIZE": str(options.max_body),
        "NNHAL_SERVICE_HTTP_PORT": "0",
        "NNHAL_SERVICE_GRPC_PORT": "0",
        "NNHAL_SERVICE_METRICS_PORT": "0",
        "NNHAL_SERVICE_ALLOW_CLIENT_SHM": "false",  # a region lies on one host
        **({} if options.tokens is None else {"NNHAL_DASHBOARD_TOKENS": str(options.tokens)}),
    }
