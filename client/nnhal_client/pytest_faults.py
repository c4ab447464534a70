"""A fixture of pytest that makes devices misbehave during a test, and clears their faults after it.

A ``conftest.py`` names it: ``pytest_plugins = ["nnhal_client.pytest_faults"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote.faults import FaultControl

DeviceFaultsOf = Callable[[Path], FaultControl]


@pytest.fixture
def device_faults() -> Iterator[DeviceFaultsOf]:
    """Return a function from a device's directory to the control of its faults, which are cleared after the test.

    The device must have been started with ``--allow-faults``, and by the user who runs the test.
    """
    with ExitStack() as stack:

        def faults_of(directory: Path) -> FaultControl:
            control = stack.enter_context(FaultControl(Endpoint(Path(directory))))
            stack.callback(_clear, control)
            return control

        yield faults_of


def _clear(control: FaultControl) -> None:
    with suppress(NnhalError):  # it has died of one; those of a device that is started again are those of its file
        control.clear()
