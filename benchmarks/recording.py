"""``python -m benchmarks.recording [ROUNDS]``: what recording adds to a burst.

Two cpu_acc processes execute a relu over bursts, with inputs of several sizes: one that may not be recorded, and one
that may. Each round has a block of calls of every case, so that a load on the machine meets all alike; the figures are
of all calls of a case, and the median over the rounds of what a block has above that without permission.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal.remote.recordings import Omissions, RecordingControl
from nnhal_hosting.supervision import Child
from nnhal_tools.bench.hal_models import relu, request_for
from nnhal_tools.bench.samples import Samples

_ROUNDS = 20
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


def main() -> None:
    """Print a line for each size and case."""
    parser = argparse.ArgumentParser("python -m benchmarks.recording", description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=_ROUNDS)
    rounds = parser.parse_args().rounds
    print(f"{'input':>8} {'case':16}{'median µs':>11}{'p99 µs':>9}{'more':>8}")
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        _device(Path(folder) / "plain") as plain,
        _device(Path(folder) / "recordable", "--allow-recording") as recordable,
    ):
        for size, elements in _SIZES.items():
            _measure(size, elements, plain, recordable, Path(folder) / "a.nnrec", rounds)


def _measure(size: str, elements: int, plain: Endpoint, recordable: Endpoint, path: Path, rounds: int) -> None:
    samples = {case: Samples() for case in _CASES}
    more: dict[str, list[float]] = {case: [] for case in _CASES}
    with ExitStack() as stack:
        runs = {endpoint: stack.enter_context(_burst(endpoint, elements)) for endpoint in (plain, recordable)}
        for _ in range(rounds):
            medians = {}
            for case, omissions in _CASES.items():
                run = runs[plain if case == _BASE else recordable]
                block = Samples()
                with ExitStack() as recorded:
                    if omissions is not None:
                        control = recorded.enter_context(RecordingControl(recordable))
                        control.start(path, omissions)
                        recorded.callback(control.stop)  # which waits until all is written
                    for _ in range(_SETTLING):
                        run()
                    for _ in range(_BLOCK):
                        block.measure(run)
                medians[case] = block.percentile(50)
                samples[case].values += block.values
            for case, found in medians.items():
                more[case].append(found / medians[_BASE] - 1)
    for case, sample in samples.items():
        middle, late = sample.percentile(50) / 1e3, sample.percentile(99) / 1e3
        print(f"{size:>8} {case:16}{middle:11.1f}{late:9.0f}{median(more[case]):8.1%}")


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
    main()
