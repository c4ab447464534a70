"""The deployment of hosts, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig

from nnhal_ray.host import HostReplica
from nnhal_ray.options import ScaleOutOptions

_DOWNSCALE_SECONDS = 600.0
"""A host takes seconds to start, so it is not given up soon."""
_HEALTH_CHECK_SECONDS = 10.0
_HEALTH_ANSWER_SECONDS = 15.0
"""A replica that does not answer three checks within this hangs, and is replaced."""


def application(arguments: Mapping[str, object] | ScaleOutOptions) -> Application:
    """Return the application. A configuration file may set its options, but for one host a node.

    Raises ValidationError.
    """
    options = ScaleOutOptions.model_validate(arguments)
    hosts = serve.deployment(
        HostReplica,
        name="Host",
        max_replicas_per_node=1,
        max_ongoing_requests=options.max_requests,
        ray_actor_options={"num_cpus": options.cpus, "resources": dict(options.accelerators)},
        health_check_period_s=_HEALTH_CHECK_SECONDS,
        health_check_timeout_s=_HEALTH_ANSWER_SECONDS,
        graceful_shutdown_timeout_s=options.drain_seconds,
        graceful_shutdown_wait_loop_s=0.5,
        **_scale(options),
    )
    return hosts.bind(options)


def _scale(options: ScaleOutOptions) -> dict[str, Any]:
    if options.min_hosts == options.max_hosts:
        return {"num_replicas": options.min_hosts}
    scaling = AutoscalingConfig(
        min_replicas=options.min_hosts,
        max_replicas=options.max_hosts,
        target_ongoing_requests=options.target_requests,
        downscale_delay_s=_DOWNSCALE_SECONDS,
    )
    return {"autoscaling_config": scaling}
