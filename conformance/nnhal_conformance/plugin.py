"""Plugin of pytest: ``pytest --nnhal-device DIR --pyargs nnhal_conformance`` asks a running device about each rule.

A team that starts its own device defines the fixture ``nnhal_device`` and imports ``test_rule`` of ``test_rules``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nnhal.endpoint import Endpoint
    from nnhal_conformance.device import Known


_STEPS = 1_000
SECONDS = 30.0
"""Time in which the device is to give each answer."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--nnhal-device`` and ``--nnhal-steps``."""
    group = parser.getgroup("nnhal")
    text = "Directory of a running device, which nnhal_conformance's tests ask."
    group.addoption("--nnhal-device", metavar="DIR", type=Path, help=text)
    group.addoption(
        "--nnhal-steps", metavar="COUNT", type=int, default=_STEPS, help="About how many random steps it is asked for."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that show rows of the HAL's contract."""
    config.addinivalue_line("markers", "contract(*rows): the rows of the HAL's contract that a test shows")


@pytest.fixture(scope="session")
def nnhal_device(pytestconfig: pytest.Config) -> Endpoint:
    """Return the endpoint of the device that is asked."""
    # Every run of pytest loads this plugin: what it needs is imported when it is asked.
    from nnhal.endpoint import Endpoint
    from nnhal.errors import NnhalError
    from nnhal_conformance.runner import require_served

    directory = pytestconfig.getoption("--nnhal-device")
    if directory is None:
        pytest.skip("got no --nnhal-device DIR, the directory of a running device")
    endpoint = Endpoint(directory)
    try:
        require_served(endpoint, SECONDS)
    except NnhalError as error:
        pytest.exit(f"--nnhal-device {directory}: {error}", pytest.ExitCode.USAGE_ERROR)
    return endpoint


@pytest.fixture(scope="session")
def nnhal_known() -> Known:
    """Return the facts of the device that are asked for once."""
    from nnhal_conformance.device import Known

    return Known()
