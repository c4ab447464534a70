"""HAProxy's configuration, of which Ray Serve has a template."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("ray", reason="needs Ray, which 'make ray' installs in an environment of its own")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray's own
    from ray.serve._private.haproxy import HAPROXY_CONFIG_TEMPLATE

    from nnhal_ray.worker_setup import OtherRayError, balancer_template


def test_haproxy_s_own_ports_are_the_loopback_s_and_another_template_is_refused() -> None:
    changed = balancer_template(HAPROXY_CONFIG_TEMPLATE)
    assert "bind :" not in changed and "bind *:" not in changed
    assert changed.count("disable-l7-retry") == 2
    with pytest.raises(OtherRayError, match="has no line"):
        balancer_template(changed)
