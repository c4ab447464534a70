"""Sessions of an application that outlives its framework."""

from __future__ import annotations

import threading

from nnhal_client.framework import Framework

_lock = threading.Lock()


def living(framework: Framework) -> Framework:
    """A session; if its framework has gone, the one that has taken its place, with the framework that serves there now.

    Raises DeadObjectError if no framework serves there.
    """
    if framework.is_closed or not framework.calls.hung_up:
        return framework
    with _lock:
        if framework.successor is None or framework.successor.calls.hung_up:
            framework.successor = Framework(framework.calls.endpoint.directory)
        return framework.successor
