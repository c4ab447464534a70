"""Find the layers in a graph: the rows of the table in their order, each with as many of its optional parts as fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from nnhal_mlip.flow.flow_partition import FlowKernel, Objection
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.limits import BEYOND, PUBLIC
from nnhal_mlip.flow.patterns.parts import PartQuestion, PatternPart
from nnhal_mlip.flow.patterns.question import WEIGHTED, CheckQuestion
from nnhal_mlip.flow.patterns.table import PATTERNS, LayerPattern

_BEYOND_HINT = "nnhal takes it if it may go beyond the public flow"


@dataclass(frozen=True, slots=True)
class FlowMatches:
    """The layers of a graph, and why the other operators are in none."""

    kernels: tuple[FlowKernel, ...]
    """In an order in which they can be computed."""
    objections: Mapping[str, Objection]
    """For each node that is in no layer, by its output."""


def match_composites(
    graph: FlowGraph, beyond_public: bool = True, to_host: Mapping[str, Objection] | None = None
) -> FlowMatches:
    """Return the layers of a graph. ``to_host`` has nodes that stay on the host, by their outputs, and why."""
    matching = _Matching(graph, beyond_public, to_host or {})
    for row in PATTERNS:
        if row.public or beyond_public:
            for node in graph.nodes:
                if node.operator == row.asked and matching.is_free(node):
                    matching.match(row, node)
    position = {node.output: number for number, node in enumerate(graph.nodes)}
    kernels = sorted(matching.kernels, key=lambda kernel: position[kernel.output])
    objections = {node.output: matching.objection(node) for node in graph.nodes if node.output not in matching.taken}
    return FlowMatches(tuple(kernels), objections)


class _Fitted(NamedTuple):
    """A part of a layer, and the value between it and its neighbour."""

    part: PatternPart
    node: FlowNode
    between: str


class _Matching:
    """The layers so far."""

    def __init__(self, graph: FlowGraph, beyond: bool, to_host: Mapping[str, Objection]) -> None:
        self.kernels: list[FlowKernel] = []
        self.taken: set[str] = set()
        self._graph = graph
        self._rules = BEYOND if beyond else PUBLIC
        self._to_host = to_host
        self._answers: dict[str, Objection] = {}
        self._misfits: dict[str, Objection] = {}
        self._bare = {node.output for node in graph.nodes if node.operator in WEIGHTED}
        self._uses = graph.uses()
        self._producers = graph.producers()
        self._consumers = graph.consumers()

    def is_free(self, node: FlowNode) -> bool:
        return node.output not in self.taken and node.output not in self._to_host

    def match(self, row: LayerPattern, asked: FlowNode) -> None:
        """Make a layer of a node and what fits around it, or note why it is none."""
        question = self._question(asked)
        objection = row.objection(question)
        if objection:
            self._answers[asked.output] = self._with_hint(row, question, objection)
            return
        before, after = self._before(row, asked), self._after(row, asked)
        nodes = (*(fitted.node for fitted in before), asked, *(fitted.node for fitted in after))
        marks = tuple(self._marks(row, asked, before + after)) if self._rules.beyond else ()
        self.kernels.append(FlowKernel(row.composite, asked.operator, nodes, marks))
        outputs = {node.output for node in nodes}
        self.taken |= outputs
        self._bare -= outputs

    def objection(self, node: FlowNode) -> Objection:
        for known in (self._to_host, self._answers, self._misfits):
            if node.output in known:
                return known[node.output]
        return refuse_alone(node, self._rules.beyond)

    def _before(self, row: LayerPattern, asked: FlowNode) -> list[_Fitted]:
        found: list[_Fitted] = []
        value = asked.inputs[0]
        for part in reversed(row.before):
            node = self._producers.get(value)
            if node is None or not self._fits(part, node, asked, value):
                return []
            found.insert(0, _Fitted(part, node, value))
            value = node.inputs[0]
        return found

    def _after(self, row: LayerPattern, asked: FlowNode) -> list[_Fitted]:
        found: list[_Fitted] = []
        value = asked.output
        for part in row.after:
            for node in self._consumers.get(value, []):
                if self._fits(part, node, asked, value):
                    found.append(_Fitted(part, node, value))
                    value = node.output
        return found

    def _fits(self, part: PatternPart, node: FlowNode, asked: FlowNode, between: str) -> bool:
        if node.operator not in part.operators or not self.is_free(node):
            return False
        if self._uses[between] > 1:
            misfit: Objection | None = refuse_shared(node, between, asked.operator)
        else:
            misfit = part.fits(PartQuestion(self._question(node), asked, between))
        if misfit:
            self._misfits[node.output] = misfit
        return misfit is None

    def _question(self, node: FlowNode) -> CheckQuestion:
        return CheckQuestion(self._graph, node, self._rules, self._bare)

    def _marks(self, row: LayerPattern, asked: FlowNode, parts: list[_Fitted]) -> Iterator[str]:
        """Yield what of a layer the public rules would refuse."""
        question = replace(self._question(asked), rules=PUBLIC)
        found = [row.objection(question) if row.public else refuse_alone(asked, beyond=False)]
        found += [
            part.fits(PartQuestion(replace(question, node=node), asked, between)) for part, node, between in parts
        ]
        for objection in found:
            if objection:
                yield f"{objection.check}: {objection.got}; the public flow takes {objection.allowed}"

    def _with_hint(self, row: LayerPattern, question: CheckQuestion, objection: Objection) -> Objection:
        """Say so if only the public rules object."""
        if self._rules.beyond or objection.hint or row.objection(replace(question, rules=BEYOND)):
            return objection
        return replace(objection, hint=_BEYOND_HINT)


_ACTIVATIONS = (Operator.CLIP, *TABLES)


def refuse_alone(node: FlowNode, beyond: bool) -> Objection:
    """Return why the accelerator does not take an operator alone."""
    if beyond or not any(node.operator in part.operators for row in PATTERNS for part in (*row.before, *row.after)):
        if node.operator in _ACTIVATIONS:
            return Objection("ACTIVATION", node.operator, _activations(beyond), check="activation")
        asked = sorted({row.asked.value for row in PATTERNS if beyond or row.public})
        return Objection("OP", node.operator, ", ".join(asked), check="operator")
    if node.operator in _ACTIVATIONS:
        return Objection("ACTIVATION", node.operator, _activations(beyond), check="activation")
    before = [row.asked.value for row in PATTERNS if any(node.operator in part.operators for part in row.before)]
    after = [row.asked.value for row in PATTERNS if any(node.operator in part.operators for part in row.after)]
    allowed = f"directly {'before' if before else 'behind'} {' or '.join(before or after)}, with nothing else between"
    return Objection("OP", f"{node.operator} alone", allowed, check=f"{node.operator}.alone")


def refuse_shared(node: FlowNode, value: str, composite: str) -> Objection:
    """Return why an operator is no part of the layer beside it: something else needs the value between them."""
    got = f"{value}, which others read as well or the graph returns"
    return Objection("OP", got, f"a value that only {composite} has", check=f"{node.operator}.users")


def _activations(beyond: bool) -> str:
    return "relu, clip or a function that a table has" if beyond else "relu"
