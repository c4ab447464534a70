"""An application of the NDK's API that outlives its framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import Framework, connect
from nnhal_client.ndk import Compilation, Execution, ResultCode, devices
from nnhal_client.ndk.session import living
from nnhal_hosting.supervision import Child
from tests.support.ndk import floor_model, named, refused
from tests.support.processes import WARM
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@contextmanager
def running(directory: Path, cpu_ref: Endpoint) -> Iterator[None]:
    endpoints = ["--endpoint", str(directory / "framework"), "--device", f"cpu_ref={cpu_ref.directory}"]
    child = Child("nnhal_service", endpoints, zygote=WARM)
    try:
        child.wait_until_ready()
        yield
    finally:
        child.stop()


def floored(framework: Framework) -> Compilation:
    compilation = Compilation(framework, floor_model(), named(framework, "nnapi-reference"))
    compilation.finish()
    return compilation


def compute(compilation: Compilation) -> float:
    result = np.zeros(1, np.float32)
    with Execution(compilation) as execution:
        execution.set_input(0, np.array([3.7], np.float32))
        execution.set_output(0, result)
        execution.compute()
    return float(result[0])


def test_the_next_compilation_finds_the_framework_that_came_back(short_path: Path, cpu_ref: Endpoint) -> None:
    with running(short_path, cpu_ref):
        session = connect(short_path / "framework")
        assert isinstance(session, Framework)
        before = floored(session)
        assert compute(before) == 3
        assert living(session) is session
    with session:
        wait_until(lambda: session.calls.hung_up, "the session knows that its framework has gone")
        refused(ResultCode.DEAD_OBJECT, lambda: devices(session))
        with running(short_path, cpu_ref):
            refused(ResultCode.DEAD_OBJECT, lambda: compute(before))
            with floored(session) as after, floored(session) as beside:
                assert compute(after) == compute(beside) == 3
                assert after.framework is beside.framework is living(session)
                assert after.framework is not session
            before.close()
    assert living(session) is session, "a session that was closed has no successor"
