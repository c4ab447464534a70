"""How far each layer's simulated results are from those of the float network.

Only the outputs of a binary leave the accelerator. So each subgraph is compiled once more with all its layers as
outputs, in the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log10

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.command.calibration import graph_inputs
from nnhal_mlip.command.execution import execute
from nnhal_mlip.command.layer_names import layer_kind
from nnhal_mlip.command.model_file import FlowModel
from nnhal_mlip.command.samples import ModelSample
from nnhal_mlip.compiler.compiler import compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.partition.cutting import steps
from nnhal_mlip.program.program import MAX_PORTS
from nnhal_mlip.simulator.simulator import Simulator


@dataclass(frozen=True, slots=True)
class LayerError:
    """The distance of a value from the float network's, over all samples. It includes that of the layers before."""

    value: str
    kind: str
    """The layer's, as in the nodes file, or the word of an operator of the host."""
    user_names: tuple[str, ...]
    on_host: bool
    largest: float
    mean: float
    peak: float
    """The largest magnitude in the float network."""
    sqnr: float | None
    """Signal to noise in decibels; None if there is no noise, or no signal."""


class _Distance:
    """Adds up the distance of a value over samples."""

    def __init__(self) -> None:
        self.largest = self.peak = 0.0
        self._sum = self._noise = self._signal = 0.0
        self._count = 0

    def add(self, got: Array, wanted: Array) -> None:
        expected = wanted.astype(np.float64)
        distance = np.abs(got.astype(np.float64).reshape(expected.shape) - expected)
        self._count += distance.size
        self._sum += float(distance.sum())
        self._noise += float((distance**2).sum())
        self._signal += float((expected**2).sum())
        self.largest = max(self.largest, float(distance.max(initial=0.0)))
        self.peak = max(self.peak, float(np.abs(expected).max(initial=0.0)))

    @property
    def mean(self) -> float:
        return self._sum / max(self._count, 1)

    @property
    def sqnr(self) -> float | None:
        if not self._noise or not self._signal:
            return None
        found = 10 * log10(self._signal / self._noise)
        return found if abs(found) < inf else None


class LayerProbes:
    """Subgraphs of a partition, compiled so that all their layers are outputs."""

    def __init__(self, found: FlowPartition, options: Mapping[str, MlipCompilerOptions]) -> None:
        """``options`` has those of each subgraph, by its symbol."""
        self._found = found
        self._probes = {
            subgraph.symbol: [
                probe
                for start in range(0, len(subgraph.kernels), MAX_PORTS)
                for probe in _probes(found, subgraph, options[subgraph.symbol], _outputs(subgraph, start))
            ]
            for subgraph in found.subgraphs
        }

    def __call__(self, subgraph: FlowSubgraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        results: dict[str, Array] = {}
        for outputs, simulator in self._probes[subgraph.symbol]:
            run = simulator.run([inputs[name] for name in subgraph.inputs])
            results.update(zip(outputs, run.outputs, strict=True))
        return results

    def errors(self, model: FlowModel, samples: Sequence[ModelSample]) -> list[LayerError]:
        """Return the distance of every layer, and of every operator of the host, in the order in which they run."""
        distances: dict[str, _Distance] = {}
        for sample in samples:
            wanted = evaluate(self._found.graph, graph_inputs(model, sample))
            got = execute(model, self._found, sample, self)
            for name, values in got.items():
                if name in wanted and wanted[name].dtype.kind == "f":
                    distances.setdefault(name, _Distance()).add(values, wanted[name])
        return [
            LayerError(
                value,
                kind,
                names,
                on_host,
                distances[value].largest,
                distances[value].mean,
                distances[value].peak,
                distances[value].sqnr,
            )
            for value, kind, names, on_host in _values(self._found)
            if value in distances
        ]


def _outputs(subgraph: FlowSubgraph, start: int) -> tuple[str, ...]:
    return tuple(kernel.output for kernel in subgraph.kernels[start : start + MAX_PORTS])


def _probes(
    found: FlowPartition, subgraph: FlowSubgraph, options: MlipCompilerOptions, outputs: tuple[str, ...]
) -> list[tuple[tuple[str, ...], Simulator]]:
    """Compile a subgraph with some outputs; if they do not fit together, with fewer of them at a time."""
    try:
        files = describe(found, replace(subgraph, outputs=outputs))
        binary = compile_files(files, replace(options, wb_pin_ocm=False)).binary
    except MisfitOfTilesError:
        if len(outputs) == 1:
            raise
        half = len(outputs) // 2
        parts = (outputs[:half], outputs[half:])
        return [probe for part in parts for probe in _probes(found, subgraph, options, part)]
    return [(outputs, Simulator(binary, options.profile))]


def _values(found: FlowPartition) -> list[tuple[str, str, tuple[str, ...], bool]]:
    values = []
    for step in steps(found):
        if isinstance(step, FlowSubgraph):
            values += [(kernel.output, layer_kind(kernel), kernel.user_names, False) for kernel in step.kernels]
        else:
            names = tuple(source.name for source in step.sources)
            values += [(output, step.operator, names, True) for output in step.outputs]
    return values
