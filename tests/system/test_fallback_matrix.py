"""Models split over GPU, NPU and CPU: results, the strategy of every edge, and the bytes that are copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_client import Framework
from nnhal_client.explanation import Explanation
from nnhal_tools.up import DeviceEntry
from tests.support.drawn_values import integers
from tests.support.testbeds import framework_over
from tests.support.tflite_files import Spec, TfliteFile, floats, int8

SCALE, SIZE = 0.05, 8
DEVICES = {"G": "gpu_acc", "N": "ethos_n", "C": "cpu_acc"}
CHAINS = ["GC", "CG", "GN", "NG", "CN", "NC", "GNG", "NGN", "GNC"]
FLOATS, INTS = floats(1, SIZE, SIZE, 4), int8(1, SIZE, SIZE, 4, scale=SCALE)
ANYTHING = {"ashmem", "hardware_buffer_blob"}
IMPORTS = {"gpu_acc": ANYTHING, "ethos_n": {"hardware_buffer_blob"}, "cpu_acc": ANYTHING, "client": ANYTHING}
ALIGNMENTS = {"gpu_acc": 128, "ethos_n": 64, "cpu_acc": 64}


class Network:
    """A chain of parts, each with ``width`` inputs and outputs, whose tensors are named after their device."""

    def __init__(self, chain: str, width: int) -> None:
        self._file = TfliteFile()
        self._quantised, self._last = chain[0] == "N", ""
        self._counter = 0
        self.pins = {f"name:*{DEVICES[letter]}_*": DEVICES[letter] for letter in chain}
        self.inputs = {f"x{number}": INTS if self._quantised else FLOATS for number in range(width)}
        values = [self._file.input(name, spec) for name, spec in self.inputs.items()]
        for letter in chain:
            values = self._part(letter, values)
        self.content = self._file.build(*values)

    def _part(self, letter: str, values: list[int]) -> list[int]:
        if letter == "N":
            # The part before has the floats, and so quantises them.
            quantised = values if self._quantised else [self._convert("QUANTIZE", self._last, v, INTS) for v in values]
            values = [self._convolution(value) for value in quantised]
        else:
            given = [self._convert("DEQUANTIZE", letter, v, FLOATS) for v in values] if self._quantised else values
            values = [self._convert("TANH", letter, value, FLOATS) for value in given]
        self._quantised, self._last = letter == "N", letter
        return values

    def _convert(self, operator: str, letter: str, value: int, spec: Spec) -> int:
        (result,) = self._file.operator(operator, [value], {self._name(letter): spec})
        return result

    def _convolution(self, value: int) -> int:
        filter_ = self._file.constant(integers(4, 1, 1, 4), int8(4, 1, 1, 4, scale=[0.004] * 4))
        bias = self._file.constant(integers(4), Spec([4], np.int32, [SCALE * 0.004] * 4))
        window = ("Conv2DOptions", {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0})
        (result,) = self._file.operator("CONV_2D", [value, filter_, bias], {self._name("N"): INTS}, window)
        return result

    def _name(self, letter: str) -> str:
        self._counter += 1
        return f"{DEVICES[letter]}_{self._counter}"

    def feed(self) -> dict[str, Array]:
        random = np.random.default_rng(5)
        return {
            name: random.integers(-40, 40, spec.shape).astype(np.int8)
            if spec.element_type == np.int8
            else random.uniform(-1, 1, spec.shape).astype(np.float32)
            for name, spec in self.inputs.items()
        }


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """Run a framework over all four devices."""
    with framework_over(*(DeviceEntry(driver=name) for name in (*DEVICES.values(), "cpu_ref"))) as session:
        yield session


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_devices_computes_what_one_does_with_only_the_necessary_copies(
    framework: Framework, tmp_path: Path, chain: str, width: int
) -> None:
    network = Network(chain, width)
    path = tmp_path / f"{chain}.tflite"
    path.write_bytes(network.content)
    model = framework.load(path, pins=network.pins, fallback="deny")
    assert list(model.steps) == [DEVICES[letter] for letter in chain]
    outputs, report = model.run_with_report(network.feed())
    reference = framework.load(path, devices=["cpu_ref"])
    for name, expected in reference.run(network.feed()).items():
        tolerance = 2 if expected.dtype == np.int8 else 2 * SCALE * ("N" in chain) + 1e-5
        np.testing.assert_allclose(outputs[name].astype(float), expected.astype(float), rtol=0, atol=tolerance)
    explanation = model.explain()
    check_edges(explanation)
    assert sum(step.copied_bytes for step in report.steps) == explanation.copied_bytes
    between = [edge for edge in explanation.edges if "client" not in (edge.source, edge.destination)]
    assert len(between) == width * (len(chain) - 1)
    assert sum(edge.copied_bytes for edge in between) == 0
    model.unload()
    reference.unload()


def check_edges(explanation: Explanation) -> None:
    """Check that every edge's strategy follows from the import flags, and that its reason names both devices."""
    borders = [{edge.source, edge.destination} for edge in explanation.edges]
    of_client = {"hardware_buffer_blob"} if {"client", "ethos_n"} in borders else {"ashmem"}
    for edge in explanation.edges:
        possible = IMPORTS[edge.source] & IMPORTS[edge.destination]
        if "client" in (edge.source, edge.destination):
            possible &= of_client
        assert edge.sync == (edge.source == "gpu_acc")
        if possible:
            assert (edge.strategy, edge.copied_bytes) == ("ExportToTarget", 0), edge
            fallback = edge.source in ("gpu_acc", "ethos_n") and edge.destination != "client"
            assert edge.layer == ("FallbackImport" if fallback else "MemImport"), edge
            assert edge.memory in possible
            for side in {edge.source, edge.destination} - {"client"}:
                assert edge.alignment % ALIGNMENTS[side] == 0
            assert edge.source in edge.reason and edge.destination in edge.reason
        else:
            assert (edge.strategy, edge.layer) == ("CopyToTarget", "MemCopy"), edge
            assert edge.copied_bytes == edge.bytes
            assert "hardware_buffer_blob only" in edge.reason


def test_many_runs_and_bindings_share_memory_and_give_the_same_results(framework: Framework, tmp_path: Path) -> None:
    network = Network("GNGNC", 2)
    path = tmp_path / "long.tflite"
    path.write_bytes(network.content)
    model = framework.load(path, pins=network.pins)
    feed = network.feed()
    expected = model.run(feed)
    bindings = [model.bind() for _ in range(3)]
    for round_ in range(20):
        binding = bindings[round_ % 3]
        binding.fill(feed)
        binding.run()
        for name, array in binding.outputs.items():
            np.testing.assert_array_equal(array, expected[name])
    model.unload()
