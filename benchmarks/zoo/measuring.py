"""One model in nnhal and in the runtime of its format, by turns, and the figures as tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median
from typing import TypeVar

import numpy as np
from rich.table import Table

from benchmarks.zoo.packages import ModelFile
from benchmarks.zoo.runtimes import Nnhal, in_process
from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal_client import Framework
from nnhal_tools.bench.runner import Aim, figure_table
from nnhal_tools.runtimes import PeerRuntime, UnusableModelError, in_line

_LARGE_SECONDS = 1e-3
"""Computation from which on the hop between processes should not count."""
_LARGE_LOAD_SECONDS = 5e-3
"""Loading from which on its ratio counts; below it is calls between processes that take the time."""
T = TypeVar("T")
_SEED = 7


@dataclass(frozen=True, slots=True)
class Effort:
    """Rounds and seconds of a measurement."""

    rounds: int
    """Each has runs of either side."""
    seconds: float
    """What the runs of one side take in a round, about."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Result for one model. Times are seconds, medians of the rounds."""

    name: str
    refusal: str = ""
    """Why there are no figures; empty if there are."""
    operations: int = 0
    steps: int = 0
    difference: float = 0.0
    """The largest of outputs, relative to the largest magnitude of the same output."""
    own_seconds: float = 0.0
    peer_seconds: float = 0.0
    ratio: float = 0.0
    """nnhal's time over the runtime's: the median of the rounds' ratios."""
    own_load_seconds: float = 0.0
    peer_load_seconds: float = 0.0

    @property
    def load_ratio(self) -> float:
        """nnhal's time to load over the runtime's."""
        return self.own_load_seconds / self.peer_load_seconds if self.peer_load_seconds else 0.0


def measured(file: ModelFile, framework: Framework, effort: Effort) -> Measured:
    """Load a file on both sides, compare outputs, and take times by turns."""
    try:
        loading, peer = _timed(lambda: in_process(file))
    except UnusableModelError as error:
        return Measured(file.name, f"its runtime refuses it: {error}")
    inputs = _inputs(file, peer)
    try:
        peer.place(inputs)
        peer.run()
    except Exception as error:  # the runtimes' exceptions have no other common class
        return Measured(file.name, f"its runtime cannot run it: {in_line(error)}")
    expected = peer.outputs()
    try:
        own_loading, own = _timed(lambda: Nnhal(framework, file.path))
    except (NnhalError, OSError, ValueError) as error:
        return Measured(file.name, f"nnhal refuses it: {in_line(error)}")
    try:
        own.bind(inputs, expected)
        own.place(inputs)
        own.run()
        difference = _difference(expected, own.outputs())
        own_seconds, peer_seconds, ratio = _by_turns(own, peer, effort)
        operations = len(own.model.placements)
    except (NnhalError, OSError, ValueError) as error:
        return Measured(file.name, f"nnhal cannot run it: {in_line(error)}", steps=len(own.model.steps))
    finally:
        own.close()
    model = own.model
    return Measured(
        file.name,
        operations=operations,
        steps=len(model.steps),
        difference=difference,
        own_seconds=own_seconds,
        peer_seconds=peer_seconds,
        ratio=ratio,
        own_load_seconds=own_loading,
        peer_load_seconds=loading,
    )


def _inputs(file: ModelFile, peer: PeerRuntime) -> dict[str, Array]:
    generator = np.random.default_rng(_SEED)
    return {
        name: values_of(file.name, name, dimensions_of(file.name, name, declared), element, generator)
        for name, (declared, element) in peer.inputs.items()
    }


def _timed(load: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    loaded = load()
    return time.perf_counter() - began, loaded


def _by_turns(own: PeerRuntime, peer: PeerRuntime, effort: Effort) -> tuple[float, float, float]:
    """The seconds of a run on either side, and the ratio of both."""
    own_count, peer_count = (max(1, int(effort.seconds / _seconds(side, 1))) for side in (own, peer))
    rounds = [(_seconds(own, own_count), _seconds(peer, peer_count)) for _ in range(effort.rounds)]
    ratio = median(ours / theirs for ours, theirs in rounds)
    return median(ours for ours, _ in rounds), median(theirs for _, theirs in rounds), ratio


def _seconds(side: PeerRuntime, count: int) -> float:
    """The seconds of a run, by so many."""
    began = time.perf_counter()
    for _ in range(count):
        side.run()
    return (time.perf_counter() - began) / count


def _difference(expected: Sequence[Array], got: Sequence[Array]) -> float:
    """Raise ValueError if dimensions differ."""
    worst = 0.0
    for wanted, own in zip(expected, got, strict=True):
        if wanted.shape != own.shape and not (wanted.shape == () and own.shape == (1,)):
            raise ValueError(f"an output is {list(own.shape)}, the runtime's is {list(wanted.shape)}")
        if wanted.size:
            wide, narrow = wanted.astype(np.float64), own.reshape(wanted.shape).astype(np.float64)
            worst = max(worst, float(np.max(np.abs(wide - narrow)) / (np.max(np.abs(wide)) or 1.0)))
    return worst


_OPEN: dict[str, dict[str, tuple[int, ...]]] = {
    "nudenet/320n.onnx": {"images": (1, 3, 320, 320)},
    "openwakeword/melspectrogram.*": {"input": (1, 1280)},
    "openwakeword/silero_vad.onnx": {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)},
    "piper/nakdimon.onnx": {"input_1": (1, 80)},
    "piper/model.onnx": {"char_inputs": (1, 64), "diac_inputs": (1, 64), "input_lengths": (1,)},
    "rapidocr_onnxruntime/*det*": {"x": (1, 3, 320, 320)},
    "rapidocr_onnxruntime/*rec*": {"x": (1, 3, 48, 320)},
    "rapidocr_onnxruntime/*cls*": {"x": (1, 3, 48, 192)},
    "silero_vad/silero_vad_16k_sequence.onnx": {"input": (4, 576)},
    "silero_vad/*": {"input": (1, 576), "state": (2, 1, 128)},
    "basic_pitch/*": {"*": (1, 43844, 1)},
}
"""Dimensions of inputs by file and input, both patterns; the first that fits counts."""
_VALUES: dict[str, dict[str, int]] = {
    "*/silero_vad*": {"sr": 16000},
    "piper/model.onnx": {"input_lengths": 64},
}
"""Values of inputs that are settings."""
_MOST = 8
"""Random integers are below it: they are indices into tables, and most tables are larger."""


def dimensions_of(file: str, name: str, declared: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of an input; ``declared`` has 0 for what is open, which is 1 if the table has no other."""
    for files, inputs in _OPEN.items():
        for pattern, dimensions in inputs.items() if fnmatchcase(file, files) else ():
            if fnmatchcase(name, pattern) and len(dimensions) == len(declared):
                return dimensions
    return tuple(size or 1 for size in declared)


def values_of(
    file: str, name: str, dimensions: tuple[int, ...], element: np.dtype[np.generic], generator: np.random.Generator
) -> Array:
    """Return values for an input."""
    for files, inputs in _VALUES.items():
        if fnmatchcase(file, files) and name in inputs:
            return np.full(dimensions, inputs[name], element)
    if element.kind == "f":
        return np.asarray(generator.uniform(0, 1, dimensions), element)
    if element.kind == "b":
        return np.asarray(generator.integers(0, 2, dimensions), element)
    most = 256 if element == np.uint8 else 128 if element == np.int8 else _MOST
    return np.asarray(generator.integers(0, most, dimensions), element)


def figures_table(models: Sequence[Measured]) -> Table:
    """Return a table with a row for each model that ran."""
    columns = "operations,steps,difference,ms,runtime,ratio,load ms,runtime,ratio"
    table = figure_table("Models of other people's packages", "model", columns)
    for each in models:
        if not each.refusal:
            own, loads = (
                (f"{own:.{digits}f}", f"{peer:.{digits}f}", f"{ratio:.{ratio_digits}f}")
                for own, peer, ratio, digits, ratio_digits in (
                    (each.own_seconds * 1e3, each.peer_seconds * 1e3, each.ratio, 3, 2),
                    (each.own_load_seconds * 1e3, each.peer_load_seconds * 1e3, each.load_ratio, 0, 1),
                )
            )
            table.add_row(each.name, str(each.operations), str(each.steps), f"{each.difference:.1e}", *own, *loads)
    return table


def refusals_table(models: Sequence[Measured]) -> Table:
    """Return a table with a row for each model that did not run, and why."""
    table = Table("model", "why it has no figures", title="Models without figures")
    for each in models:
        if each.refusal:
            table.add_row(each.name, each.refusal)
    return table


def aims_of(models: Sequence[Measured]) -> list[Aim]:
    """Return what the figures should be."""
    ran = [each for each in models if not each.refusal]
    large = [each.ratio for each in ran if each.peer_seconds >= _LARGE_SECONDS]
    loads = [each.load_ratio for each in ran if each.peer_load_seconds >= _LARGE_LOAD_SECONDS]
    brief = [each.own_load_seconds * 1e3 for each in ran if each.peer_load_seconds < _LARGE_LOAD_SECONDS]
    refused = sum(each.refusal.startswith("nnhal") for each in models)
    return [
        Aim("models that only nnhal refuses", refused, 0, "models"),
        Aim("median ratio of runs over 1 ms", median(large) if large else None, 1.1),
        Aim("worst ratio of runs over 1 ms", max(large, default=None), 1.5),
        Aim("most steps of a model", max((each.steps for each in ran), default=None), 3, "steps"),
        Aim("median ratio of loading what takes the runtime over 5 ms", median(loads) if loads else None, 2.5),
        Aim("median time of loading the others", median(brief) if brief else None, 12, "ms"),
    ]
