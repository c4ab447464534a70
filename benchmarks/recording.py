"""``python -m benchmarks.recording [ROUNDS]``: what recording adds to a burst.

Two cpu_acc processes execute a relu over bursts, with inputs of several sizes: one that may not be recorded, and one
that may, in blocks by turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.__main__ import run
from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal.remote.recordings import Omissions, RecordingControl
from nnhal_hosting.supervision import Child
from nnhal_tools.bench.hal_models import relu, request_for
from nnhal_tools.bench.runner import Report, in_turns, time_table

_BLOCK = 500
_SETTLING = 20
_SIZES = {"256 B": 64, "4 KiB": 1024, "64 KiB": 16_384, "600 KiB": 153_600}
"""Elements of float32."""
_BASE = "not permitted"
_CASES: dict[str, Omissions | None] = {
    _BASE: None,
    "permitted": None,
    "names and times": Omissions(contents=True),
    "contents": Omissions(),
}


def recording(
    rounds: Annotated[int, typer.Argument(help="Blocks of 500 bursts of each case.", min=1)] = 20,
) -> Report:
    """Measure what recording adds to a burst, by the size of its input."""
    tables = []
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        _device(Path(folder) / "plain") as plain,
        _device(Path(folder) / "recordable", "--allow-recording") as recordable,
    ):
        for size, elements in _SIZES.items():
            with _burst(plain, elements) as base, _burst(recordable, elements) as recorded:
                ways = {case: base if case == _BASE else recorded for case in _CASES}
                around = partial(_recorded, recordable, Path(folder) / "a.nnrec")
                samples = in_turns(ways, rounds * _BLOCK, block=_BLOCK, settling=_SETTLING, around=around)
            tables.append(time_table(f"A burst with {size}", samples, _BASE))
    return Report(tables)


@contextmanager
def _recorded(endpoint: Endpoint, path: Path, case: str) -> Iterator[None]:
    """Record what a case records as long as the context lasts, and until all of it is written."""
    omissions = _CASES[case]
    if omissions is None:
        yield
        return
    with RecordingControl(endpoint) as control:
        control.start(path, omissions)
        yield
        control.stop()


@contextmanager
def _burst(endpoint: Endpoint, elements: int) -> Iterator[Callable[[], object]]:
    with RemoteDevice(endpoint, "bench") as device:
        model = relu(elements)
        prepared = device.prepare_model(model)
        execution = prepared.create_reusable_execution(request_for(model))
        burst = prepared.configure_execution_burst()
        yield lambda: burst.run(execution)
        burst.close()


@contextmanager
def _device(directory: Path, *options: str) -> Iterator[Endpoint]:
    child = Child("nnhal_devices", ["cpu_acc", "--endpoint", str(directory), "--log-level", "error", *options])
    try:
        child.wait_until_ready()
        yield Endpoint(directory)
    finally:
        child.stop()


if __name__ == "__main__":
    run(recording)
