"""``python -m benchmarks.decode``: what a token of a small GPT costs, with caches that stay on a device or are copied,
and a run of TFLite models with variables.

All ways take turns for each token: the runtime in this process, nnhal, and a ping-pong, the floor of a hop.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from examples.decode import FIRST, STATES, Bound, OnnxRuntime, gpt, growing
from nnhal.arrays import Array
from nnhal_client import Binding, DomainMemory, Framework, Model
from nnhal_client.tensors import ReservedDimensions
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.runtimes import LiteRT
from nnhal_tools.up import DeviceEntry
from tests.support.testbeds import framework_over

_PEER, _FLOOR = "the runtime alone", "ping-pong"
_WARM_UP = 10
"""Tokens that do not count."""
Step = Callable[[int, int], object]


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


class Swapped:
    """Two bindings whose caches lie in allocated memory: each reads what the other has written."""

    def __init__(self, framework: Framework, model: Model, dimensions: Mapping[str, ReservedDimensions]) -> None:
        turns: tuple[dict[str, DomainMemory], ...] = {}, {}
        shapes = {tensor.name: tensor.dimensions for tensor in model.inputs}
        for before, after in STATES.items():
            roles = [model.input_role(before), model.output_role(after)]
            memories = [framework.allocate(roles, dimensions.get(before, ())) for _ in turns]
            if before not in dimensions:
                memories[0].copy_from(np.zeros(shapes[before], np.float32))
            for turn, (read, written) in zip(turns, (memories, memories[::-1]), strict=True):
                turn |= {before: read, after: written}
        self._turns = [Bound(model.bind(memories=turn)) for turn in turns]

    def step(self, token: int, position: int) -> Array:
        """Run the one whose turn it is."""
        logits = self._turns[0].step(token, position)
        self._turns.reverse()
        return logits


class Resized(Copied):
    """The same for caches that grow."""

    def step(self, token: int, position: int) -> Array:
        """Run, make the inputs longer, and copy."""
        logits = self._bound.step(token, position)
        self._binding.resize({name: self._binding.outputs[after].shape for name, after in STATES.items()})
        for before, after in STATES.items():
            self._binding.inputs[before][...] = self._binding.outputs[after]
        return logits


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser("python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--past", type=int, default=256, help="the length of caches that do not grow")
    parser.add_argument("--growing", type=int, default=512, metavar="N", help="caches of lengths 0 to N - 1")
    parser.add_argument("--tflite", type=Path, nargs="*", default=(), metavar="FILE", help="models with variables")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        framework = stack.enter_context(framework_over(DeviceEntry(driver="cpu_acc")))
        ping = stack.enter_context(ping_pong())
        _show(f"caches of {given.past}", _measured(_fixed(framework, folder, given.past), ping, given.tokens))
        _show(f"caches of 0 to {given.growing - 1}", _measured(_growing(framework, folder), ping, given.growing, 0))
        for file in given.tflite:
            _show(file.stem, _measured(_variables(framework, file), ping, given.tokens))


def _fixed(framework: Framework, folder: Path, past: int) -> dict[str, Step]:
    source = gpt(past)
    file = folder / "gpt.onnx"
    file.write_bytes(source.SerializeToString())
    stateful, plain = framework.load(file, states=STATES), framework.load(file)
    return {
        _PEER: OnnxRuntime(source).step,
        "state, direct": Bound(stateful.bind()).step,
        "state, through the framework": Bound(stateful.bind(direct=False)).step,
        "memory, direct": Swapped(framework, plain, {}).step,
        "copied, direct": Copied(plain.bind()).step,
    }


def _growing(framework: Framework, folder: Path) -> dict[str, Step]:
    source = gpt(None)
    file = folder / "growing.onnx"
    file.write_bytes(source.SerializeToString())
    stateful, plain = framework.load(file, states=STATES, dimensions=growing()), framework.load(file)
    return {
        _PEER: OnnxRuntime(source).step,
        "state, direct": Bound(stateful.bind()).step,
        "memory, direct": Swapped(framework, plain, growing()).step,
        "copied, direct": Resized(plain.bind(dimensions=growing())).step,
    }


def _variables(framework: Framework, file: Path) -> dict[str, Step]:
    """The same zeros for each run: what a model computes from them depends on its variables all the same."""
    runtime, binding = LiteRT(file), framework.load(file).bind()
    runtime.place({name: np.zeros(*form) for name, form in runtime.inputs.items()})
    return {_PEER: lambda *_: runtime.run(), "state, direct": lambda *_: binding.run()}


def _show(title: str, seconds: Mapping[str, list[float]]) -> None:
    peer, hop = median(seconds[_PEER]), median(seconds[_FLOOR])
    print(f"{title + ', µs':38}{'median':>8}{'least':>8}{'ratio':>8}{'hops more':>11}")
    for name, found in seconds.items():
        more = "" if name in (_PEER, _FLOOR) else f"{median(found) / peer:8.2f}{(median(found) - peer) / hop:11.1f}"
        print(f"{name:38}{median(found) * 1e6:8.0f}{min(found) * 1e6:8.0f}{more}")


def _measured(
    steps: Mapping[str, Step], ping: Callable[[], object], tokens: int, warm_up: int = _WARM_UP
) -> dict[str, list[float]]:
    """Seconds of each way's tokens but for the first ones."""
    seconds: dict[str, list[float]] = {name: [] for name in (*steps, _FLOOR)}
    for position in range(warm_up + tokens):
        calls: dict[str, Callable[[], object]] = {name: partial(step, FIRST, position) for name, step in steps.items()}
        for name, call in {**calls, _FLOOR: ping}.items():
            begun = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begun)
    return {name: found[warm_up:] for name, found in seconds.items()}


if __name__ == "__main__":
    main()
