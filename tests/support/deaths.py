"""Deaths that last: a supervisor would start the process again, and perhaps before the test goes on."""

from __future__ import annotations

import signal

from nnhal_tools.up import Testbed


def kill_for_good(testbed: Testbed, name: str) -> None:
    """Kill a process of a testbed, which does not start it again."""
    child = testbed.process(name).leave()
    assert child is not None, f"{name} was stopped before"
    child.process.send_signal(signal.SIGKILL)
    child.process.wait()
