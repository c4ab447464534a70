"""Cost of a run of a model: nnhal and the runtimes beside it in blocks by turns, by step and by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal.reports import NOTHING_COPIED, CopiedBytes, copied_by
from nnhal.tensors import stored_inputs
from nnhal.types.layout import Dimensions
from nnhal_client.explanation import Explanation
from nnhal_client.framework import Framework
from nnhal_client.model import Model
from nnhal_client.reports import RunReport
from nnhal_pages.units import duration
from nnhal_tools.bench.on_devices import Operated, ReportedTime, reported_times
from nnhal_tools.bench.runner import Action, Advance, Samples, in_turns
from nnhal_tools.explain import UNKNOWN, with_unknown_times
from nnhal_tools.runtimes import LiteRT, OnnxRuntime, differences, place_alike, profile_of

T = TypeVar("T")
VERSION = 1
"""Of what ``ModelReport.as_dict`` gives; it grows when a member goes or means something else."""
WARM_UP = 10
"""Runs of each side before the first that counts."""
BLOCK = 10
"""Runs of one side after the other, so that it is measured with its own data in the caches."""
_SETTLING = 2
"""Runs at the start of a block that do not count: they have what the others have left in the caches."""
_MEASURED_RUNS = 20
"""Runs through the framework that report their steps, and runs under a profile; none of them is in the percentiles."""
OUTLIER = 10.0
"""How many times its share an operation has to take to be pointed at."""
_BLOCKED = "_nchwc"
"""What ONNX Runtime adds to the name of a node that it runs in blocks of channels."""
_LAUNCH_NS = 1e6
"""More than the launch of any step takes, however short its operations are."""
UNRELIABLE = "unreliable, and nothing is concluded from them"
"""How a sentence ends that says so of some times."""
_CREDIBLE = 2.0
"""How many times the time of a whole its parts may add up to, since they are measured in other runs."""
_LEAST_SHARE = 0.1
"""The least share of the time that is pointed at."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of runs of one side, in nanoseconds."""

    p50_ns: float
    p90_ns: float
    p99_ns: float
    least_ns: float

    @classmethod
    def of(cls, samples: Samples) -> Times:
        """Return the percentiles of some durations."""
        return cls(*(samples.percentile(percent) for percent in (50, 90, 99, 0)))


@dataclass(frozen=True, slots=True)
class BesideReport:
    """A runtime in this process, with the same file and the same inputs."""

    runtime: str
    times: Times
    ratio: float
    """nnhal's time to the runtime's: the median over the runs."""
    largest_difference: float | None
    """Between an output of nnhal and the runtime's; None if they cannot be compared."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of the plan."""

    step: int
    device: str
    operations: tuple[str, ...]
    """The types of its operations."""
    device_ns: float
    """Its median on the device, over measured runs; -1 if it did not run."""
    is_modelled: bool
    """Whether that is by a model of the device, and not by a clock."""
    modelled_ns: float
    """What the cost model of the device says of it."""


@dataclass(frozen=True, slots=True)
class OperationTime:
    """An operation of the plan, or a node of the graph as a runtime runs it."""

    nodes: tuple[str, ...]
    """The nodes of the file that it stands for, or the one that the runtime calls it by."""
    type: str
    step: int
    """-1 for a node of a runtime."""
    source: str
    """Whose time it is: the device by its cost model, or the runtime by its profile."""
    duration_ns: float


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Report of ``nnhal bench MODEL``."""

    model: str
    seed: int
    """Of the random inputs."""
    inputs: Mapping[str, str]
    """Element type and dimensions of each input."""
    rounds: int
    """Runs of each side that count."""
    nnhal: Times
    """From the client's call to its return, not measured inside."""
    is_direct: bool
    """Whether these runs went directly from the client to the devices."""
    beside: tuple[BesideReport, ...]
    steps: tuple[StepTime, ...]
    operations: tuple[OperationTime, ...]
    """By the devices' cost models, in the order of the plan, then by the runtime's profile, the longest first."""
    on_devices: tuple[ReportedTime, ...]
    """By the devices' own account, step by step."""
    prepared_again: Mapping[str, int | None]
    """Models that each device has prepared during the rounds: 0 unless plans were made again; None if it cannot say."""
    bound_again: Mapping[str, int | None]
    """Executions that each device has more after the rounds than before them."""
    pointed_at: tuple[str, ...]
    """What takes ten times its share, in words."""
    notes: tuple[str, ...]
    """What could not be measured, and why."""
    reports: tuple[RunReport, ...] = field(default=(), compare=False)
    """The measured runs."""
    modelled_ns: float = UNKNOWN
    """The modelled time of a run."""
    doubtful_steps: tuple[int, ...] = ()
    """Steps whose times cannot be right, as ``notes`` say."""

    @property
    def copied(self) -> CopiedBytes:
        """Bytes that devices copied in a measured run, by place."""
        return copied_by(self.reports[-1].ledger) if self.reports else NOTHING_COPIED


@dataclass(slots=True)
class BenchedModel:
    """Model that is measured."""

    path: Path
    inputs: Mapping[str, Array]
    seed: int
    dimensions: Mapping[str, Dimensions]
    """Of the inputs, for the load."""
    beside: Mapping[str, OnnxRuntime | LiteRT]
    signature: str = ""
    pins: Mapping[str, str] = field(default_factory=dict)


def measure_model(
    framework: Framework,
    operated: Operated,
    given: BenchedModel,
    rounds: int,
    advance: Advance,
) -> tuple[ModelReport, Model]:
    """Load a model and measure it. Raises HalError, ValueError."""
    model = framework.load(given.path, dimensions=given.dimensions, signature=given.signature, pins=given.pins)
    stored = stored_inputs(model.inputs, given.inputs)
    explanation = with_unknown_times(model.explain())
    notes: list[str] = []
    for runtime in given.beside.values():
        place_alike(runtime, given.inputs)
    with model.bind() as binding:
        binding.fill(stored)
        is_direct = binding.run().direct
        actions: dict[str, Action] = {
            "nnhal": binding.run,
            **{name: runtime.run for name, runtime in given.beside.items()},
        }
        for action in (*actions.values(),) * WARM_UP:
            action()
        before = _usage(operated.devices)
        samples = in_turns(actions, rounds, block=BLOCK, settling=_SETTLING, advance=advance)
        after = _usage(operated.devices)
        outputs = {tensor.name: tensor.value(binding.outputs[tensor.name]) for tensor in model.outputs}
    with model.bind(measure_timing=True) as measured:
        measured.fill(stored)
        reports = tuple(measured.run() for _ in range(_MEASURED_RUNS))
    steps = _steps(explanation, reports)
    reported, silent = reported_times(operated, model.session_name, explanation, [step.device_ns for step in steps])
    notes += silent
    nodes = _profiled(given, notes)
    operations = _modelled(explanation)
    prepared: dict[str, int | None] = {}
    bound: dict[str, int | None] = {}
    for name, found in after.items():
        earlier = before[name]
        prepared[name] = bound[name] = None
        if found is not None and earlier is not None:
            prepared[name], bound[name] = found[0] - earlier[0], found[1] - earlier[1]
    notes += [f"{name}: it does not say what it has prepared" for name, found in after.items() if found is None]
    times = Times.of(samples["nnhal"])
    beside = tuple(_beside(name, runtime, samples, outputs) for name, runtime in given.beside.items())
    doubts = doubtful_steps(times, steps, reported)
    node_doubts = [doubt for each in beside if each.runtime == "ort" and (doubt := doubtful_nodes(each.times, nodes))]
    trusted_steps = [step for step in steps if step.step not in doubts]
    trusted = [each for each in reported if each.step not in doubts]
    notes += [*dict.fromkeys(doubts.values()), *node_doubts]
    report = ModelReport(
        str(given.path),
        given.seed,
        {name: f"{array.dtype} {list(array.shape)}" for name, array in given.inputs.items()},
        rounds,
        times,
        is_direct,
        beside,
        steps,
        (*operations, *nodes),
        tuple(reported),
        prepared,
        bound,
        (
            *(slow_steps(steps) if trusted_steps == list(steps) else ()),
            *slow_on_devices(operations, trusted),
            *slow_outside(trusted_steps, trusted),
            *(() if node_doubts else slow_nodes(operations, nodes)),
        ),
        tuple(notes),
        reports,
        explanation.modelled_ns,
        tuple(doubts),
    )
    return report, model


def doubtful_steps(run: Times, steps: Sequence[StepTime], reported: Sequence[ReportedTime]) -> dict[int, str]:
    """Return why no conclusion can be drawn from the times of a step and its operations: parts exceed the whole.

    Parts are measured in other runs, or in other sessions, which a busy machine makes longer than the whole.
    """
    measured = [step for step in steps if step.device_ns >= 0 and not step.is_modelled]
    inside = sum(step.device_ns for step in measured)
    if inside > _CREDIBLE * run.p50_ns:
        why = _doubt("the steps, in runs that are measured inside,", inside, "a run", run.p50_ns)
        return {step.step: why for step in measured}
    found = {}
    for step in measured:
        parts = sum(each.duration_ns for each in reported if each.step == step.step and not each.is_modelled)
        if parts > _CREDIBLE * step.device_ns:
            what = f"the operations of step {step.step}, measured by themselves on {step.device},"
            found[step.step] = _doubt(what, parts, "the step", step.device_ns)
    return found


def doubtful_nodes(run: Times, nodes: Sequence[OperationTime]) -> str:
    """Return why no conclusion can be drawn from a runtime's profile; empty if nothing speaks against it."""
    whole = sum(node.duration_ns for node in nodes)
    return _doubt("ort: the profiled nodes", whole, "a run", run.p50_ns) if whole > _CREDIBLE * run.p50_ns else ""


def _doubt(parts: str, parts_ns: float, whole: str, whole_ns: float) -> str:
    return (
        f"{parts} add up to {duration(parts_ns)}, more than {whole} takes, {duration(whole_ns)}: these times are "
        f"{UNRELIABLE}"
    )


def slow_steps(steps: Sequence[StepTime]) -> list[str]:
    """Say which steps take OUTLIER times the share of the plan's time that the devices' cost models give them."""
    known = [step for step in steps if step.device_ns >= 0 and step.modelled_ns > 0]
    found = _outliers(known, [s.device_ns for s in known], [s.modelled_ns for s in known])
    return [
        f"step {step.step}, {', '.join(step.operations)} on {step.device}, takes {each.share:.0%} of the time on "
        f"devices, and by the cost models {each.due:.1%}: {each.excess}"
        for step, each in found
    ]


def slow_nodes(operations: Sequence[OperationTime], nodes: Sequence[OperationTime]) -> list[str]:
    """Say which operations take OUTLIER times the share of a runtime's time that the cost models give them.

    An operation takes the time of the nodes that the runtime calls as the file does, or with its suffix for a layout.
    """
    owners = {node: number for number, operation in enumerate(operations) for node in operation.nodes if node}
    owned = [(owners.get(each.nodes[0].removesuffix(_BLOCKED)), each.duration_ns) for each in nodes]
    taken = [((owner,), duration_ns) for owner, duration_ns in owned if owner is not None]
    return [
        f"{words} takes {each.share:.0%} of the time in ONNX Runtime, and by the cost models {each.due:.1%}: "
        f"{each.excess}"
        for words, each in _slow_operations(operations, taken)
    ]


def slow_on_devices(operations: Sequence[OperationTime], reported: Sequence[ReportedTime]) -> list[str]:
    """Say which operations take OUTLIER times the share of a device's own time that its cost model gives them."""
    return [
        f"{words} takes {each.share:.0%} of the time of the operations on {device}, and by its cost model "
        f"{each.due:.1%}: {each.excess}"
        for device in dict.fromkeys(each.device for each in reported)
        for words, each in _slow_operations(
            operations, [(each.operations, each.duration_ns) for each in reported if each.device == device]
        )
    ]


def slow_outside(steps: Sequence[StepTime], reported: Sequence[ReportedTime]) -> list[str]:
    """Say which steps take OUTLIER times as long as their operations that were measured by themselves."""
    found = []
    for step in steps:
        inside = sum(each.duration_ns for each in reported if each.step == step.step and not each.is_modelled)
        if inside and step.device_ns >= max(OUTLIER * inside, inside + _LAUNCH_NS):
            found.append(
                f"step {step.step} takes {step.device_ns / inside:.0f} times as long on {step.device} as its "
                "operations, measured by themselves: the time is lost around them"
            )
    return found


def _slow_operations(
    operations: Sequence[OperationTime], taken: Sequence[tuple[tuple[int, ...], float]]
) -> list[tuple[str, _Excess]]:
    """The operations, in words, that take OUTLIER times their share, of what some take together or alone."""
    sums: dict[tuple[int, ...], float] = {}
    for numbers, duration_ns in taken:
        if any(operations[number].duration_ns > 0 for number in numbers):
            sums[numbers] = sums.get(numbers, 0.0) + duration_ns
    due = [sum(operations[number].duration_ns for number in numbers) for numbers in sums]
    return [
        (" and ".join(f"{operations[n].type} {', '.join(operations[n].nodes)}".rstrip() for n in numbers), each)
        for numbers, each in _outliers(list(sums), list(sums.values()), due)
    ]


class _Excess(NamedTuple):
    """Item that takes more than its share."""

    share: float
    """Its part of what all take."""
    due: float
    """Its part of what is due to all."""

    @property
    def over_others(self) -> float:
        """Return the ratio of its time to the time that the others' suggest for it."""
        return self.share * (1 - self.due) / (self.due * (1 - self.share)) if self.share < 1 else float("inf")

    @property
    def excess(self) -> str:
        """Return how much it is over its share. One that is due much of all cannot have many times that."""
        times = self.share / self.due
        if times >= OUTLIER:
            return f"{times:.0f} times its share"
        return f"{self.over_others:.0f} times as long beside the others"


def _outliers(items: Sequence[T], taken: Sequence[float], due: Sequence[float]) -> list[tuple[T, _Excess]]:
    """The items that take OUTLIER times as much as what is due to them, beside what the others take."""
    whole, whole_due = sum(taken), sum(due)
    if not whole or not whole_due:
        return []
    found = [(item, _Excess(one / whole, own / whole_due)) for item, one, own in zip(items, taken, due, strict=True)]
    return [
        (item, each)
        for item, each in found
        if each.share >= _LEAST_SHARE and each.due < 1 and each.over_others >= OUTLIER
    ]


def _usage(endpoints: Mapping[str, Endpoint]) -> dict[str, tuple[int, int] | None]:
    """Return the numbers of compiled models and of executions of each device; None if it does not say."""
    found: dict[str, tuple[int, int] | None] = {}
    for name, endpoint in endpoints.items():
        try:
            with RemoteDevice(endpoint, "nnhal-bench") as device:
                usage = device.usage()
        except NnhalError:
            found[name] = None
        else:
            found[name] = usage.compiled_models + usage.restored_models, usage.executions
    return found


def _beside(
    name: str, runtime: OnnxRuntime | LiteRT, samples: Mapping[str, Samples], outputs: Mapping[str, object]
) -> BesideReport:
    expected = runtime.outputs()
    largest = None
    if len(expected) == len(outputs):
        largest = max((each.largest for each in differences(outputs, expected)), default=0.0)
    pairs = zip(samples["nnhal"].values, samples[name].values, strict=True)
    ratio = median(own / peer for own, peer in pairs)
    return BesideReport(
        name, Times.of(samples[name]), ratio, largest if largest is not None and np.isfinite(largest) else None
    )


def _steps(explanation: Explanation, reports: Sequence[RunReport]) -> tuple[StepTime, ...]:
    modelled = {device.name: device.modelled_timing for device in explanation.devices}
    found = []
    for number, step in enumerate(explanation.steps):
        times = [ran.time_on_device_ns for report in reports for ran in report.steps if ran.step == number]
        types = tuple(story.operation for story in explanation.operations if story.step == number)
        is_modelled = modelled.get(step.device, False)
        found.append(StepTime(number, step.device, types, median(times or [-1]), is_modelled, step.modelled_ns))
    return tuple(found)


def _modelled(explanation: Explanation) -> tuple[OperationTime, ...]:
    return tuple(
        OperationTime(story.nodes, story.operation, story.step, story.device, story.modelled_ns)
        for story in explanation.operations
    )


def _profiled(given: BenchedModel, notes: list[str]) -> tuple[OperationTime, ...]:
    """The nodes of a file that ONNX Runtime runs beside, by its profile, which needs a session of its own."""
    if "litert" in given.beside:
        notes.append("litert: no times by operation from it")
    if "ort" not in given.beside:
        return ()
    nodes = profile_of(given.path, given.inputs, _MEASURED_RUNS)
    return tuple(OperationTime((node.name,), node.type, -1, "ort", node.duration_ns) for node in nodes)
