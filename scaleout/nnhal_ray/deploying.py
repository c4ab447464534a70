"""Deploying the application on a cluster, and telling meanwhile what is waited for."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import dropwhile
from typing import Any

import ray
from ray import serve
from ray.serve.schema import ApplicationStatus

from nnhal.errors import NnhalError
from nnhal_ray.application import application
from nnhal_ray.options import ScaleOutOptions
from nnhal_ray.progress import Progress, TooLongError

APPLICATION = "nnhal"
_SERVICER = "nnhal_ray.protocol.add_to_server"
_SERVE_SECONDS = 180.0
_DASHBOARD_SECONDS = 30.0
_FAILED = (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY)


class DeployError(NnhalError):
    """The application does not come up. The message says why, as far as it is known."""


def connect(address: str, progress: Progress) -> None:
    """Make this process a driver of the cluster at an address. Raises DeployError."""

    logging.getLogger("ray.serve").setLevel(logging.WARNING)

    def reach() -> None:
        ray.init(address, namespace="serve", log_to_driver=False, logging_level="error")

    try:
        progress.during("the cluster is reached", reach, _SERVE_SECONDS)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DeployError(f"the cluster at {address} cannot be reached: {error}") from error


def deploy(
    options: ScaleOutOptions, host: str, http_port: int, grpc_port: int, seconds: float, progress: Progress
) -> None:
    """Deploy the application, and wait until all its hosts serve.

    Raises DeployError if it fails or takes longer than ``seconds``.
    """
    target = serve.RunTarget(application(options), name=APPLICATION, route_prefix="/")

    def start() -> None:
        serve.start(
            proxy_location="EveryNode",
            http_options={"host": host, "port": http_port},
            grpc_options={"port": grpc_port, "grpc_servicer_functions": [_SERVICER]},
        )
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    try:
        progress.during("Ray Serve starts: its controller, and HAProxy on every node", start, _SERVE_SECONDS)
        progress.wait(_said, _runs, seconds)
    except TooLongError as error:
        raise DeployError(str(error)) from error
    except (RuntimeError, serve.exceptions.RayServeException) as error:
        raise DeployError(f"Ray Serve does not start: {shortened(str(error))}") from error


def dashboards(progress: Progress) -> list[tuple[str, str]]:
    """The hosts and the addresses of their dashboards. One that does not start keeps no host from serving."""
    told: dict[str, str] = {}

    def all_tell() -> bool:
        hosts = serve.get_deployment_handle("Host", APPLICATION)
        told.update(hosts.broadcast("dashboard").results(timeout_s=_DASHBOARD_SECONDS))
        return all(told.values())

    with suppress(TooLongError, TimeoutError):
        progress.wait("the dashboards start", all_tell, _DASHBOARD_SECONDS)
    return sorted((name, address) for name, address in told.items() if address)


def _status() -> Any:
    return serve.status().applications.get(APPLICATION)


def _runs() -> bool:
    """Whether all hosts serve. Raises DeployError if they never will."""
    found = _status()
    if found is not None and found.status in _FAILED:
        told = [deployment.message for deployment in found.deployments.values() if deployment.message]
        raise DeployError(f"the hosts do not come up: {shortened(chr(10).join(told) or found.message)}")
    return found is not None and found.status is ApplicationStatus.RUNNING


def _said() -> str:
    """What is waited for: how many hosts serve, and what Serve says of the others."""
    found = _status()
    if found is None or "Host" not in found.deployments:
        return "the application is deployed"
    host = found.deployments["Host"]
    count = {getattr(state, "value", state): number for state, number in host.replica_states.items()}
    serving, all_of_them = count.get("RUNNING", 0), sum(count.values())
    text = f"{serving} of {all_of_them} hosts serve; the others start their devices, then load their models"
    return f"{text} ({shortened(host.message)})" if host.message else text


def shortened(message: str) -> str:
    """What a message of Serve says at last: of a traceback, the error that it ends with."""
    _, is_traced, traced = message.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in (traced if is_traced else message).splitlines() if line.strip()]
    return "\n".join(dropwhile(lambda line: bool(is_traced) and line.startswith(" "), lines))
