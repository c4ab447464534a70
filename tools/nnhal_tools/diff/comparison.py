"""Compare two sides layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nnhal.errors import HalError
from nnhal.operations import type_name
from nnhal.types.layout import describe
from nnhal_tools.cases.asked_device import EndedError
from nnhal_tools.diff.device_side import HELPER, DeviceSide
from nnhal_tools.diff.harder_inputs import harder_inputs
from nnhal_tools.diff.report import INHERITED, MADE, DiffReport, LayerDiff
from nnhal_tools.diff.subject import ComparedLayer, ComparedSide, SideValues, Subject, Values
from nnhal_tools.distance import Figures, Limits, is_half, judged


def compare(
    subject: Subject,
    ref: ComparedSide,
    dut: DeviceSide,
    samples: Sequence[Values],
    limits: Limits,
    helper: Callable[[], DeviceSide],
) -> Comparison:
    """Run both sides on each sample. ``helper`` says what layers compute if the reference is a runtime.

    Raises ValueError if a device declines every operation, HalError if a side refuses the model, DeadObjectError if a
    device is gone.
    """
    for side in (ref, dut):
        if isinstance(side, DeviceSide):
            side.require_any()
    wanted, got = ref.observe(samples), dut.observe(samples)
    return Comparison(subject, ref, dut, wanted, got, limits, helper)


class Comparison:
    """The values of both sides, by layers."""

    def __init__(
        self,
        subject: Subject,
        ref: ComparedSide,
        dut: DeviceSide,
        wanted: SideValues,
        got: SideValues,
        limits: Limits,
        helper: Callable[[], DeviceSide],
    ) -> None:
        self._helper = helper
        self.subject, self._ref, self.dut, self.limits = subject, ref, dut, limits
        self.wanted, self._got = wanted, got
        shown = [side.samples[0].keys() for side in (wanted, got)]
        self.layers = subject.layers((shown[0] & shown[1]) & subject.computed)
        self.half = is_half(subject.model)
        self._changing = set[int]()
        """The layers that give other values in a second run."""
        self._names = ["the reference", "the device"] if ref.name == dut.name else [ref.name, dut.name]

    def report(self, name: str) -> DiffReport:
        """Compare each layer, also as the device runs it on the reference's inputs. Raises DeadObjectError."""
        makers = {operand: layer.number for layer in self.layers for operand in layer.outputs}
        found: dict[int, LayerDiff] = {}
        for layer in self.layers:
            sources = sorted({makers[operand] for operand in layer.inputs if operand in makers})
            found[layer.number] = self._layer(layer, [found[number] for number in sources])
        declined = {self.subject.place(number): reason for number, reason in self.dut.refusals().items()}
        notes = (*self._reference_notes(), *self.wanted.notes, *self._got.notes, *self._unseen())
        return DiffReport(
            name, self._ref.name, self.dut.name, len(self.wanted.samples), tuple(found.values()), declined, notes
        )

    def _layer(self, layer: ComparedLayer, sources: Sequence[LayerDiff]) -> LayerDiff:
        ends = [self.dut.ends[number] for number in layer.operations if number in self.dut.ends]
        if ends:
            errors, made = dict[int, Figures](), dict[int, Figures]()
            over = made_over = {value: [ends[0]] for value in layer.outputs}
            problem = made_problem = ends[0]
        else:
            errors, over, problem = self._figures(layer, self._got.samples, self.wanted.samples, self.wanted.samples)
            made, made_over, made_problem = self._made(layer)
            if not made_problem and not any(made_over.values()):
                made_over = self._on_harder_inputs(layer, made)
            if any(made_over.values()) and (not any(over.values()) or layer.number in self._changing):
                over = {value: [*made_over.get(value, ()), *over.get(value, ())] for value in layer.outputs}
        # Of several results the one is told of that is over a limit, or has the most noise for its signal.
        worst = max(layer.outputs, key=lambda value: _badness(errors.get(value), over.get(value, ())))
        is_right = None if not any(over.values()) or any(made_over.values()) else self._is_right(layer)
        before = any(source.origin in (MADE, INHERITED) for source in sources)
        noise = tuple(over.get(worst, ())) if is_right and sources and not before and not problem else ()
        operand, error, own = self.subject.operand(worst), errors.get(worst), made.get(worst)
        return LayerDiff(
            layer.number,
            self.subject.kind(layer.number),
            self.subject.nodes(layer.operations),
            self.subject.name(worst),
            type_name(operand.type),
            self._got.samples[0][worst].shape,
            tuple(self.subject.kind(number) for number in layer.operations),
            self._fused(layer),
            self.dut.runs_on(layer.operations),
            tuple(source.number for source in sources),
            error,
            own,
            () if noise and not self.limits.given else tuple(over.get(worst, ())) or ((problem,) if problem else ()),
            tuple(made_over.get(worst, ())),
            _growth(error, sources),
            problem,
            made_problem,
            noise,
            is_right is False,
        )

    @property
    def _asked(self) -> DeviceSide:
        """Return the function that computes layers from given inputs: the reference, or the helper if that is a
        runtime.
        """
        return self._ref if isinstance(self._ref, DeviceSide) else self._helper()

    def _is_right(self, layer: ComparedLayer) -> bool | None:
        """Return whether the reference computes the device's result from the device's inputs; None if it cannot be
        asked.
        """
        if not layer.inputs or any(value not in self._got.samples[0] for value in layer.inputs):
            return None
        samples = [{value: sample[value] for value in layer.inputs} for sample in self._got.samples]
        try:
            expected = self._asked.run(layer.operations, layer.outputs, samples)
        except HalError:
            return None
        found, over, problem = self._figures(layer, self._got.samples, expected, samples)
        return not problem and len(found) == len(layer.outputs) and not any(over.values())

    def _made(self, layer: ComparedLayer) -> tuple[dict[int, Figures], dict[int, list[str]], str]:
        """Return the figures of a layer that runs by itself on the reference's inputs, and the limits that they exceed;
        or why it cannot.
        """
        missing = [value for value in layer.inputs if value not in self.wanted.samples[0]]
        if missing or not layer.inputs:
            return {}, {}, "it reads no value that the reference shows"
        samples = [{value: sample[value] for value in layer.inputs} for sample in self.wanted.samples]
        try:
            *results, again = self.dut.run(layer.operations, layer.outputs, [*samples, samples[0]])
        except EndedError as error:
            return {}, {value: [f"{error.message}, by itself"] for value in layer.outputs}, error.message
        except HalError as error:
            return {}, {}, f"{self.dut.name} does not run it by itself: {error.message}"
        figures, over, problem = self._figures(layer, results, self.wanted.samples, samples)
        _, kept, _ = self._figures(layer, [again], results[:1], samples[:1])
        for value, words in kept.items():
            if words:
                self._changing.add(layer.number)
                over[value] = [f"{'; '.join(words)}, between two runs of one prepared model on equal inputs"]
        return figures, over, problem

    def _on_harder_inputs(self, layer: ComparedLayer, made: Mapping[int, Figures]) -> dict[int, list[str]]:
        """Return the limits that a layer exceeds by itself on inputs that no sample has."""
        if self.limits.given or len(layer.operations) > 1 or self.dut.runs_on(layer.operations) != self.dut.name:
            return {}
        known = {value: self.wanted.samples[0][value] for value in layer.inputs if value in self.wanted.samples[0]}
        samples, words = harder_inputs(self.subject, layer, known, made, self.half)
        if not samples or len(known) < len(layer.inputs):
            return {}
        try:
            expected = self._asked.run(layer.operations, layer.outputs, samples)
            results = self.dut.run(layer.operations, layer.outputs, samples)
        except HalError:
            return {}
        _, over, _ = self._figures(layer, results, expected, samples)
        return {value: [f"{each}, {words}" for each in found] for value, found in over.items()}

    def _figures(
        self, layer: ComparedLayer, results: Sequence[Values], expected: Sequence[Values], given: Sequence[Values]
    ) -> tuple[dict[int, Figures], dict[int, list[str]], str]:
        """Return the figures of each value, the limits that it exceeds, and what keeps values from being compared.

        ``given`` has the inputs of each sample, as far as they are known.
        """
        found, over, problem = dict[int, Figures](), dict[int, list[str]](), ""
        inputs = {
            self.subject.name(number): (self.subject.operand(number), [sample[number] for sample in given])
            for number in layer.inputs
            if number in given[0]
        }
        for value in layer.outputs:
            got, wanted = ([sample[value] for sample in side] for side in (results, expected))
            shapes = next(((a.shape, b.shape) for a, b in zip(got, wanted, strict=True) if a.shape != b.shape), None)
            if shapes:
                problem = f"{self._names[1]} gives {describe(shapes[0])}, {self._names[0]} {describe(shapes[1])}"
                continue
            operand = self.subject.operand(value)
            found[value], over[value] = judged(self.limits, operand, self.half, got, wanted, inputs)
        return found, over, problem

    def _fused(self, layer: ComparedLayer) -> str:
        """Say which side shows nothing between the operations of a layer."""
        if len(layer.operations) == 1:
            return ""
        inside = {
            operand for number in layer.operations for operand in self.subject.model.main.operations[number].outputs
        } - set(layer.outputs)
        blind = [
            name
            for name, side in zip(self._names, (self.wanted, self._got), strict=True)
            if any(operand not in side.samples[0] for operand in inside)
        ]
        return f"fused: {' and '.join(blind)} shows no value between its operations"

    def _reference_notes(self) -> list[str]:
        """Say what the reference does not compute itself."""
        declined = self._ref.refusals() if isinstance(self._ref, DeviceSide) else {}
        names = ", ".join(self.subject.place(number) for number in declined)
        return [f"the reference {self._ref.name} declines {names}; {HELPER} computes it"] if declined else []

    def _unseen(self) -> list[str]:
        """Say what no layer tells of."""
        told = {number for layer in self.layers for number in layer.operations}
        left = [self.subject.place(number) for number in self.subject.everything if number not in told]
        return [f"not compared, since no value of them is shown by both sides: {', '.join(left)}"] if left else []


def _badness(figures: Figures | None, over: Sequence[str]) -> tuple[bool, float]:
    if figures is None:
        return True, float("inf")
    return bool(over), figures.noise / figures.signal if figures.signal else figures.noise


def _growth(error: Figures | None, sources: Sequence[LayerDiff]) -> float | None:
    """Return the decibels between the worst input and the result."""
    inputs = [source.error.sqnr for source in sources if source.error is not None and source.error.sqnr is not None]
    if error is None or error.sqnr is None or not inputs:
        return None
    return min(inputs) - error.sqnr
