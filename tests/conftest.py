"""Fixtures for tests in several folders."""

from __future__ import annotations

import gc
import signal
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from tests.support.processes import own_device
from tests.support.quick import forbid_processes, quick_items, sample

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


_FIRST = ("conformance", "system", "process")
"""Folders whose tests take long, and wait for processes while others compute."""


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests by file: first those of ``_FIRST``, then files with slow tests, then the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    return sorted(items, key=lambda item: (_rank(item.nodeid), item.path not in slow))


def _rank(nodeid: str) -> int:
    return next((rank for rank, folder in enumerate(_FIRST) if nodeid.startswith(f"tests/{folder}/")), len(_FIRST))


# The same examples each time, however slow the machine is at the moment.
settings.register_profile(
    "nnhal", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# Other and more examples each time: pytest --hypothesis-profile=thorough.
settings.register_profile("thorough", settings.get_profile("nnhal"), derandomize=False, max_examples=3000)
settings.load_profile("nnhal")

# A server answers as soon as its machine lets it; httpx would wait for five seconds.
DEFAULT_TIMEOUT_CONFIG.connect = DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.write = 60.0

# A shell starts what runs in its background with SIGINT ignored, and so would be all processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As in the processes of devices.
threadpool_limits(1, user_api="blas")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``make quick`` and ``make test``."""
    parser.addoption("--quick", action="store_true", help="a sample of tests that start no process")
    parser.addoption("--whole", action="store_true", help="say how many tests there are, and how long they take")


def pytest_configure(config: pytest.Config) -> None:
    """Have the process that the workers report to say what is run."""
    if (config.getoption("--quick") or config.getoption("--whole")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Advice(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all but the quick tests if that is asked for, and order those of several workers."""
    if config.getoption("--quick"):
        quick, others = quick_items(items)
        items[:], left_out = sample(quick)
        config.hook.pytest_deselected(items=[*others, *left_out])
    if hasattr(config, "workerinput"):
        items[:] = in_order(items)


@pytest.fixture(autouse=True, scope="session")
def _no_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold quick tests to what they promise."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--quick"):
            forbid_processes(patch)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import all tests without looking for garbage: what is imported stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _no_garbage() -> None:
    """Collect reference cycles that earlier modules left, since some tests count objects and descriptors.

    What is there then is imported modules and collected tests, for the most part: no collection looks at it again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Run a test without garbage collection: what has to be released at once must not be in a reference cycle."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Return a directory with a short name, since the path of a unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def cpu_ref() -> Iterator[Endpoint]:
    """Return the endpoint of a shared cpu_ref process. A test that disturbs its device starts its own."""
    yield from _shared("cpu_ref")


@pytest.fixture(scope="session")
def cpu_acc() -> Iterator[Endpoint]:
    """Return the endpoint of a shared cpu_acc process. A test that disturbs its device starts its own."""
    yield from _shared("cpu_acc")


def _shared(driver: str) -> Iterator[Endpoint]:
    with own_device(driver) as (_, endpoint):
        yield endpoint


@pytest.fixture
def device(cpu_ref: Endpoint) -> Iterator[RemoteDevice]:
    """Open a session with the shared cpu_ref process."""
    with RemoteDevice(cpu_ref, "test") as remote:
        yield remote
