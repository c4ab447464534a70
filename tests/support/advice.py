"""Says at the start of ``make test`` how much it runs, and at the end what else there is to run."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

_MINUTES = 15
"""How long all tests take on two idle processors; after the first time it is known for this machine."""
_SECONDS = "nnhal/seconds"


class Advice:
    """A plug-in of the process that the others report to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()
        self._told = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        """Say how many tests there are, and how long they take."""
        if self._told or self._config.getoption("--quick"):
            return
        self._told = True
        last = self._config.cache.get(_SECONDS, None) if self._config.cache is not None else None
        took = f"{last / 60:.0f} minutes the last time" if last else f"some {_MINUTES} minutes on two idle processors"
        self._say(f"{len(ids)} tests: {took}; 'make quick' runs a sample of them in less than one")

    def pytest_terminal_summary(self, exitstatus: int) -> None:
        if self._config.getoption("--quick"):
            self._say("this was a sample: 'pytest tests/FOLDER' runs all tests of what has changed, 'make test' all")
            return
        if exitstatus == pytest.ExitCode.OK and self._config.cache is not None:
            self._config.cache.set(_SECONDS, time.monotonic() - self._began)
        self._say("between two edits: 'make quick' runs a sample, 'pytest tests/FOLDER' all tests of what has changed")

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)
