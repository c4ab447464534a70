"""The agreement of three accounts of a run: the plan, the copy ledger, and the timeline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.extensions.values import Value
from nnhal.tensors import ClientMemory
from nnhal_client import Framework, Model, RunReport
from nnhal_client.explanation import Explanation
from nnhal_hosting.trace import Trace
from nnhal_tools.trace import add_run
from nnhal_tools.up import DeviceEntry
from tests.support.mobilenet import BODY, HEAD, LABELS, MobileNet, image
from tests.support.onnx_models import onnx_model
from tests.support.testbeds import framework_over

DEVICES = ("ethos_n", "gpu_acc", "cpu_acc")
PINS = {f"name:*{BODY}/*": "ethos_n", f"name:*{HEAD}/*": "gpu_acc", f"name:*{LABELS}/*": "cpu_acc"}
_MODELS = os.environ.get("NNHAL_MODELS", "")


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """Run a framework over the NPU, the GPU, the CPU and the reference driver."""
    with framework_over(*(DeviceEntry(driver=name) for name in (*DEVICES, "cpu_ref"))) as session:
        yield session


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("story") / "mobilenet.tflite"
    path.write_bytes(MobileNet().content)
    return path


@dataclass(frozen=True)
class Story:
    """A model, its explanation, and one run."""

    model: Model
    plan: Explanation
    outputs: dict[str, Value]
    report: RunReport

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the run's timeline."""
        trace = Trace()
        add_run(trace, self.report, self.model.placements, "story")
        events: list[dict[str, Any]] = json.loads(json.dumps(trace.as_dict()))["traceEvents"]
        return events


def told(framework: Framework, path: Path, inputs: dict[str, Array], **how: Any) -> Story:
    """Load a model, run it once to warm up, and run it again with a report."""
    model = framework.load(path, **how)
    model.run_with_report(inputs)
    return Story(model, model.explain(), *model.run_with_report(inputs))


@pytest.fixture(scope="module")
def story(framework: Framework, network: Path) -> Iterator[Story]:
    """Run the network with its body on the NPU, its head on the GPU and its label on the CPU."""
    found = told(framework, network, {"image": image()}, devices=DEVICES, pins=PINS, fallback="deny")
    yield found
    found.model.unload()


def test_every_device_runs_its_part(story: Story) -> None:
    assert story.model.steps == DEVICES
    types = {device: [p.operation for p in story.model.placements if p.device == device] for device in DEVICES}
    assert set(types["ethos_n"]) == {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD"}
    assert types["gpu_acc"] == ["DEQUANTIZE", "MEAN", "FULLY_CONNECTED", "SOFTMAX"]
    assert types["cpu_acc"] == ["ARGMAX", "ADD"]
    refusals = {operation.nodes: operation.refusals for operation in story.plan.operations}
    (last,) = [refused for nodes, refused in refusals.items() if any(f"{LABELS}/label" in node for node in nodes)]
    assert set(last) == {"ethos_n", "gpu_acc"}  # only the CPU has integers


def test_results_equal_those_of_a_single_device(framework: Framework, network: Path, story: Story) -> None:
    reference = framework.load(network, devices=["cpu_ref"])
    expected = reference.run({"image": image()})
    reference.unload()
    probabilities = np.asarray(expected[f"{HEAD}/probabilities"])
    assert probabilities.max() - np.sort(probabilities.ravel())[-2] > 0.2  # rounding cannot change the label
    np.testing.assert_allclose(np.asarray(story.outputs[f"{HEAD}/probabilities"]), probabilities, atol=0.05)
    np.testing.assert_array_equal(np.asarray(story.outputs[f"{LABELS}/label"]), np.asarray(expected[f"{LABELS}/label"]))


def test_plan_ledger_and_timeline_agree(story: Story) -> None:
    agree(story)
    uses = {(entry.source, entry.destination): entry for entry in story.report.ledger}
    assert set(uses) == {
        ("", "ethos_n"),
        ("ethos_n", "gpu_acc"),
        ("gpu_acc", "cpu_acc"),
        ("gpu_acc", ""),
        ("cpu_acc", ""),
    }
    copied = {ends: entry.copied_bytes for ends, entry in uses.items() if entry.copied_bytes}
    assert copied == {}  # the client has laid out its image as the NPU takes it


def test_the_best_plan_leaves_the_gpu_out_and_says_what_it_would_cost(
    framework: Framework, network: Path, story: Story
) -> None:
    best = told(framework, network, {"image": image()}, devices=DEVICES)
    assert best.model.steps == ("ethos_n", "cpu_acc")
    assert best.plan.modelled_ns < story.plan.modelled_ns
    others = {other.device: other for other in best.plan.counterfactuals}
    assert best.plan.modelled_ns < others["cpu_acc"].modelled_ns < story.plan.modelled_ns
    assert others["gpu_acc"].modelled_ns == others["ethos_n"].modelled_ns == 0
    agree(best)
    best.model.unload()


def test_each_step_on_its_own_says_when_it_was(framework: Framework, network: Path) -> None:
    """A single step is executed over a burst, without fences."""
    alone = told(framework, network, {"image": image()}, devices=["cpu_acc"])
    assert alone.model.steps == ("cpu_acc",)
    agree(alone)
    alone.model.unload()


@pytest.mark.skipif(not _MODELS, reason="NNHAL_MODELS names no folder of TFLite networks")
def test_plan_ledger_and_timeline_of_a_real_network_agree(framework: Framework) -> None:
    path = Path(_MODELS) / "mobilenet_v2_1.0_224.tflite"
    (given,) = framework.load(path).inputs
    values = np.random.default_rng(1).integers(-128, 128, given.dimensions).astype(np.int8)
    found = told(framework, path, {given.name: values}, devices=DEVICES)
    assert found.model.steps == ("ethos_n", "cpu_acc")
    agree(found)
    found.model.unload()


def test_an_unmeasured_run_has_neither_ledger_nor_timeline(story: Story) -> None:
    _, report = story.model.run_with_report({"image": image()}, measure_timing=False)
    assert (report.ledger, report.steps) == ((), ())
    with pytest.raises(ValueError, match="not measured"):
        add_run(Trace(), report, story.model.placements, "story")


def test_the_ledger_has_inputs_that_the_device_cannot_use_in_place(framework: Framework, tmp_path: Path) -> None:
    """A client has the second input begin 64 bytes after the first one, but the GPU imports at multiples of 128."""
    path = tmp_path / "sum.onnx"
    onnx.save(onnx_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": [16], "b": [16]}, ["y"]), path)
    model = framework.load(path, devices=["gpu_acc"])
    model.memory = ClientMemory()
    values = {name: np.arange(16, dtype=np.float32) for name in ("a", "b")}
    outputs, report = model.run_with_report(values)
    np.testing.assert_array_equal(np.asarray(outputs["y"]), 2 * values["a"])
    *planned, beyond = report.ledger
    assert [entry.copied_bytes for entry in planned] == [0, 0, 0]
    assert (beyond.strategy, beyond.source, beyond.copied_bytes) == ("Unplanned", "gpu_acc", 64)
    assert "64 bytes copied in step 0, by plan 0 in and 0 out" in beyond.reason
    trace = Trace()
    add_run(trace, report, model.placements, "sum")
    assert "unplanned copy" in json.dumps(trace.as_dict())
    model.unload()


def agree(story: Story) -> None:
    """Check that plan, ledger and timeline agree."""
    ledger, events = story.report.ledger, story.events
    planned = [
        (e.value, e.source_step, e.destination_step, e.strategy, e.bytes, e.copied_bytes) for e in story.plan.edges
    ]
    entered = [(e.value, e.source_step, e.destination_step, e.strategy, e.bytes, e.copied_bytes) for e in ledger]
    assert entered == planned
    assert [entry.reason for entry in ledger] == [edge.reason for edge in story.plan.edges]
    assert sum(e.copied_bytes for e in ledger) == sum(step.copied_bytes for step in story.report.steps)
    arrows = [
        (
            event["name"],
            *(event["args"][key] for key in ("source_step", "destination_step", "strategy", "bytes", "copied_bytes")),
        )
        for event in events
        if event["ph"] == "s"
    ]
    assert sorted(arrows) == sorted(entered)
    copies = [event["args"]["bytes"] for event in events if event["name"] in ("copy in", "copy out")]
    assert sum(copies) == sum(e.copied_bytes for e in ledger)
    check_times(story, events)


def check_times(story: Story, events: list[dict[str, Any]]) -> None:
    """Check that all spans lie within the run, and that steps in a chain follow one another."""
    rows = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    spans = [(rows[event["pid"]], event) for event in events if event["ph"] == "X"]
    lengths: dict[str, float] = {}
    for row in ("client", "framework"):
        (around,) = [event for name, event in spans if name == row]
        lengths[row] = around["dur"]
        for name, event in spans:
            if name not in ("client", "framework"):
                assert around["ts"] <= event["ts"]
                assert event["ts"] + event["dur"] <= around["ts"] + around["dur"] + 0.001
    assert lengths["framework"] <= lengths["client"]
    steps = {event["args"]["step"]: event for _, event in spans if event["name"].startswith("step")}
    assert [rows[steps[number]["pid"]] for number in sorted(steps)] == list(story.model.steps)
    # These plans are chains: each step begins after the one before it has ended.
    for earlier, later in zip(sorted(steps), sorted(steps)[1:], strict=False):
        assert steps[earlier]["ts"] + steps[earlier]["dur"] <= steps[later]["ts"] + 0.001
    assert sum(event["dur"] for event in steps.values()) <= lengths["framework"]
    for name, event in spans:
        if event["name"].startswith("copy"):
            step = steps[event["args"]["step"]]
            assert name == rows[step["pid"]]
            assert step["ts"] <= event["ts"]
            assert event["ts"] + event["dur"] <= step["ts"] + step["dur"] + 0.001
