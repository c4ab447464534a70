"""``python -m benchmarks.decode``: what a token of a small GPT costs, with its caches on a device and copied.

All ways take turns for each token: ONNX Runtime in this process, nnhal, and a ping-pong, the floor of a hop.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from examples.decode import FIRST, STATES, Bound, OnnxRuntime, Step, gpt
from nnhal.arrays import Array
from nnhal_client import Binding
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.up import DeviceEntry
from tests.support.testbeds import framework_over

_PEER, _FLOOR = "ONNX Runtime", "ping-pong"
_WARM_UP = 10
"""Tokens that do not count."""


class Copied:
    """A binding without a state, whose caches are copied from its outputs to its inputs after each run."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._bound = Bound(binding)

    def step(self, token: int, position: int) -> Array:
        """Run, and copy."""
        logits = self._bound.step(token, position)
        for before, after in STATES.items():
            self._binding.inputs[before][...] = self._binding.outputs[after]
        return logits


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser("python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--past", type=int, default=256)
    given = parser.parse_args()
    source = gpt(given.past)
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "gpt.onnx"
        file.write_bytes(source.SerializeToString())
        framework = stack.enter_context(framework_over(DeviceEntry(driver="cpu_acc")))
        stateful = stack.enter_context(framework.load(file, states=STATES))
        plain = stack.enter_context(framework.load(file))
        steps: dict[str, Step] = {
            _PEER: OnnxRuntime(source).step,
            "state, direct": Bound(stack.enter_context(stateful.bind())).step,
            "state, through the framework": Bound(stack.enter_context(stateful.bind(direct=False))).step,
            "copied, direct": Copied(stack.enter_context(plain.bind())).step,
        }
        seconds = _measured(steps, stack.enter_context(ping_pong()), given.tokens)
    hop = median(seconds[_FLOOR])
    print(f"{'µs a token':30}{'median':>8}{'least':>8}{'hops more':>11}")
    for name, found in seconds.items():
        more = "" if name in (_PEER, _FLOOR) else f"{(median(found) - median(seconds[_PEER])) / hop:11.1f}"
        print(f"{name:30}{median(found) * 1e6:8.0f}{min(found) * 1e6:8.0f}{more}")


def _measured(steps: dict[str, Step], ping: Callable[[], object], tokens: int) -> dict[str, list[float]]:
    """Seconds of each way's tokens but for the first ones."""
    seconds: dict[str, list[float]] = {name: [] for name in (*steps, _FLOOR)}
    for position in range(_WARM_UP + tokens):
        calls: dict[str, Callable[[], object]] = {name: partial(step, FIRST, position) for name, step in steps.items()}
        for name, call in {**calls, _FLOOR: ping}.items():
            begun = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begun)
    return {name: found[_WARM_UP:] for name, found in seconds.items()}


if __name__ == "__main__":
    main()
