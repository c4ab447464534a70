"""Deploying the application on a cluster, and saying meanwhile what is waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import dropwhile
from typing import Any

import ray
from ray import serve
from ray.serve.schema import ApplicationStatus

from nnhal.errors import NnhalError
from nnhal_ray.application import application
from nnhal_ray.options import ScaleOutOptions

_APPLICATION = "nnhal"
_SERVICER = "nnhal_ray.protocol.add_to_server"
_FAILED = (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY)
_LOOK_SECONDS = 1.0


class DeployError(NnhalError):
    """The application does not come up. The message says why, as far as it is known."""


def connect(address: str) -> None:
    """Make this process a driver of the cluster at an address. Raises DeployError."""
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        ray.init(address, namespace="serve", log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DeployError(f"the cluster at {address} cannot be reached: {error}") from error


def deploy(
    options: ScaleOutOptions, host: str, http_port: int, grpc_port: int, seconds: float, say: Callable[[str], None]
) -> None:
    """Deploy the application, and wait until all its hosts serve.

    Raises DeployError if it fails or takes longer than ``seconds``.
    """
    say("Ray Serve starts: its controller, and HAProxy on every node")
    target = serve.RunTarget(application(options), name=_APPLICATION, route_prefix="/")
    try:
        serve.start(
            proxy_location="EveryNode",
            http_options={"host": host, "port": http_port},
            grpc_options={"port": grpc_port, "grpc_servicer_functions": [_SERVICER]},
        )
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    except (RuntimeError, serve.exceptions.RayServeException) as error:
        raise DeployError(f"Ray Serve does not start: {_shortened(str(error))}") from error
    said, end = "", time.monotonic() + seconds
    while True:
        found = serve.status().applications.get(_APPLICATION)
        text = _waited_for(found)
        if text != said:
            say(text)
            said = text
        if found is not None and found.status is ApplicationStatus.RUNNING:
            return
        if time.monotonic() > end:
            raise DeployError(f"{text}: this has taken longer than {seconds:g} s")
        time.sleep(_LOOK_SECONDS)


def _waited_for(application: Any) -> str:
    """Return how many hosts serve, and what Serve says of the others. Raises DeployError if they never will."""
    if application is None or "Host" not in application.deployments:
        return "the application is deployed"
    hosts = application.deployments["Host"]
    if application.status in _FAILED:
        raise DeployError(f"the hosts do not come up: {_shortened(hosts.message or application.message)}")
    count = {getattr(state, "value", state): number for state, number in hosts.replica_states.items()}
    serving, all_of_them = count.get("RUNNING", 0), sum(count.values())
    text = f"{serving} of {all_of_them} hosts serve; the others start their devices, then load their models"
    return f"{text} ({_shortened(hosts.message)})" if hosts.message else text


def _shortened(message: str) -> str:
    """Return what a message of Serve says at last: of a traceback, the error that it ends with."""
    _, is_traced, traced = message.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in (traced if is_traced else message).splitlines() if line.strip()]
    return "\n".join(dropwhile(lambda line: bool(is_traced) and line.startswith(" "), lines))
