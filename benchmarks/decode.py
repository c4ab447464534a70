"""``python -m benchmarks.decode``: a token of a small GPT, with caches that stay on a device or are copied.

All ways take turns for each token: the runtime in this process, nnhal, and a ping-pong, the floor of a hop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over
from examples.decode import FIRST, STATES, Bound, OnnxRuntime, gpt, growing
from nnhal.arrays import Array
from nnhal_client import Binding, DomainMemory, Framework, Model
from nnhal_client.tensors import ReservedDimensions
from nnhal_tools.bench.ping_pong import ping_pong
from nnhal_tools.bench.runner import Action, Report, in_turns, time_table
from nnhal_tools.runtimes import LiteRT
from nnhal_tools.up import DeviceEntry

_PEER = "the runtime alone"
_WARM_UP = 10
"""Tokens that do not count."""
_Step = Callable[[int, int], object]


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
    """A binding whose caches grow, and are copied likewise."""

    def step(self, token: int, position: int) -> Array:
        """Run, make the inputs longer, and copy."""
        logits = self._bound.step(token, position)
        self._binding.resize({name: self._binding.outputs[after].shape for name, after in STATES.items()})
        for before, after in STATES.items():
            self._binding.inputs[before][...] = self._binding.outputs[after]
        return logits


def decode(
    tokens: Annotated[int, typer.Option(min=1)] = 300,
    past: Annotated[int, typer.Option(help="The length of caches that do not grow.", min=1)] = 256,
    growing_to: Annotated[
        int, typer.Option("--growing", metavar="N", help="Caches of lengths 0 to N - 1.", min=1, max=1024)
    ] = 512,
    tflite: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Models with variables.")] = None,
) -> Report:
    """Measure a token of a small GPT, with caches that stay on a device or are copied."""
    tables = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        framework = stack.enter_context(framework_over(DeviceEntry(driver="cpu_acc")))
        ping = stack.enter_context(ping_pong())

        def measure(title: str, steps: Mapping[str, _Step], runs: int, warm_up: int = _WARM_UP) -> None:
            ways: dict[str, Action] = {name: _by_position(step) for name, step in steps.items()}
            ways["ping-pong"] = ping
            tables.append(time_table(title, in_turns(ways, runs, warm_up=warm_up), _PEER))

        measure(f"caches of {past}", _fixed(framework, folder, past), tokens)
        measure(f"caches of 0 to {growing_to - 1}", _growing(framework, folder), growing_to, 0)
        for file in tflite or ():
            measure(file.stem, _variables(framework, file), tokens)
    return Report(tables)


def _by_position(step: _Step) -> Action:
    """Return what does one step after the other, each at the next position."""
    positions = count()
    return lambda: step(FIRST, next(positions))


def _fixed(framework: Framework, folder: Path, past: int) -> dict[str, _Step]:
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


def _growing(framework: Framework, folder: Path) -> dict[str, _Step]:
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


def _variables(framework: Framework, file: Path) -> dict[str, _Step]:
    """Return runs on zeros: what a model computes from them depends on its variables all the same."""
    runtime, binding = LiteRT(file), framework.load(file).bind()
    runtime.place({name: np.zeros(*form) for name, form in runtime.inputs.items()})
    return {_PEER: lambda *_: runtime.run(), "state, direct": lambda *_: binding.run()}


if __name__ == "__main__":
    run(decode)
