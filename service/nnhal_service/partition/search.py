"""The plan of least modelled time: dynamic programming over what has been done, level by level.

A plan is built operation by operation: each one either joins the open step or opens one on another device. What the
rest costs then depends on which operations are done, the device of the open step, and for each value that is still to
be read, where it came from and whether the open step has it; partial plans that agree in these are the same state, of
which the cheapest is kept. Level n has the states with n operations done. On a chain there is one state for each device
and level, on trees and series-parallel graphs the open branches multiply that.

Some states cannot become the best: where the cost and a lower bound of the rest (each operation on the device that is
fastest for it) reach the cost of a plan that is known; and where the cheapest state with the same operations done could
go on in the same way, paying for a launch and for its values' other sources, and still be no dearer. Leaving these out
keeps the search exact.

Beyond that a level evaluates at most ``width`` transitions, of the states that promise the least; so time is linear in
the number of operations. What is left out for want of width bounds how good a plan could have been: no plan takes less
than the least such promise. That bound is part of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from nnhal_service.partition.grow import Group
from nnhal_service.partition.problem import Problem

_SLACK = 1 + 1e-9
"""What rounding may do to sums that are taken in another order."""

_Codes = tuple[int, ...]
"""For each live value, twice its source (as in Value), and 1 more where the open step has it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to. ``groups`` is None where nothing beats the limit.

    No plan takes less than ``lower_bound_ns``. ``evaluated`` counts transitions.
    """

    groups: tuple[Group, ...] | None
    lower_bound_ns: float
    evaluated: int


@dataclass(slots=True, eq=False)
class _State:
    cost: float
    device: int
    codes: _Codes
    operation: int = -1
    before: _State | None = None


@dataclass(slots=True)
class _Front:
    """Operations that are done: all below ``base``, and ``base + n`` where bit n of ``mask`` is set.

    ``live`` are the values that operations still have to read, with how many; those of the model's inputs that nothing
    has read yet are not among them. ``rest_ns`` is what the rest takes at least.
    """

    base: int
    mask: int
    ready: tuple[int, ...]
    live: dict[int, int]
    rest_ns: float
    states: dict[tuple[int, _Codes], _State] = field(default_factory=dict)

    def has_done(self, operation: int) -> bool:
        return operation < self.base or bool(self.mask >> (operation - self.base) & 1)


@dataclass(frozen=True, slots=True)
class _Transition:
    """From one front to another by an operation.

    ``reads`` are (value, place among the live ones or -1); ``live`` has for each value that is live afterwards its
    place before or -1, and whether the operation writes it, and whether it has touched it.
    """

    operation: int
    target: _Front
    reads: tuple[tuple[int, int], ...]
    live: tuple[tuple[int, int, bool, bool], ...]


def search(problem: Problem, limit_ns: float, effort: int = 100_000, narrow: int = 64) -> Found:
    """The groups of the cheapest plan that takes less than ``limit_ns``.

    The width begins at ``narrow`` and is made four times as large until the search is exact, or as long as the next
    round will not evaluate more than ``effort`` transitions; the first round is always made.
    """
    width, evaluated, best, lower = narrow, 0, None, 0.0
    while True:
        found = _Search(problem, limit_ns, width).run()
        evaluated += found.evaluated
        lower = max(lower, found.lower_bound_ns)
        if found.groups is not None:
            best, limit_ns = found, min(limit_ns, found.limit_ns)
        width *= 4
        if found.exact or found.evaluated * 4 > effort:
            return Found(best.groups if best is not None else None, min(lower, limit_ns), evaluated)


@dataclass(frozen=True, slots=True)
class _Round:
    groups: tuple[Group, ...] | None
    limit_ns: float
    lower_bound_ns: float
    exact: bool
    evaluated: int


class _Search:
    """One round with one width."""

    def __init__(self, problem: Problem, limit_ns: float, width: int) -> None:
        self._problem = problem
        self._limit = limit_ns / _SLACK
        self._width = width
        self._choices = max(4, width // 24)
        self._consumers: list[list[int]] = [[] for _ in problem.needs]
        for number, needs in enumerate(problem.needs):
            for producer in needs:
                self._consumers[producer].append(number)
        self._base_ns = [self._with_exports(number) for number in range(len(problem.reads))]
        self._least_ns = [min(figures) for figures in self._base_ns]
        self._origins = {id(value.edge_ns): _origins(value.edge_ns) for value in problem.values.values()}
        self._excess = {id(value.edge_ns): _excess(value.edge_ns) for value in problem.values.values()}
        self._evaluated = 0
        self._left_out = inf

    def run(self) -> _Round:
        """Level by level."""
        start = _Front(0, 0, tuple(n for n, needs in enumerate(self._problem.needs) if not needs), {}, 0.0)
        start.rest_ns = sum(self._least_ns)
        start.states[(-1, ())] = _State(0.0, -1, ())
        level = {(0, 0): start}
        for _ in self._problem.reads:
            level = self._advance(level)
        ends = [state for front in level.values() for state in front.states.values()]
        best = min(ends, key=lambda state: state.cost, default=None)
        exact = self._left_out == inf
        reached = self._limit if best is None else best.cost
        groups = None if best is None else _groups(best)
        return _Round(groups, reached, min(reached, self._left_out), exact, self._evaluated)

    def _drop_dominated(self, front: _Front) -> None:
        """Keep of a front only what may become cheaper than its cheapest state."""
        best = min(front.states.values(), key=lambda state: state.cost)
        front.states = {
            key: state
            for key, state in front.states.items()
            if state is best or state.cost < best.cost + self._switch_ns(front, best, state)
        }

    def _switch_ns(self, front: _Front, mine: _State, theirs: _State) -> float:
        """What it takes at most to go on from one state of a front as another one would."""
        total = self._problem.step_ns[theirs.device] if mine.device != theirs.device else 0.0
        for (operand, left), code, wanted in zip(front.live.items(), mine.codes, theirs.codes, strict=True):
            table = self._problem.values[operand].edge_ns
            if code >> 1 != wanted >> 1:
                total += left * self._excess[id(table)][code >> 1][wanted >> 1]
            if wanted & 1 and not (code & 1 and mine.device == theirs.device):
                total += table[code >> 1][theirs.device]
        return total

    def _advance(self, level: dict[tuple[int, int], _Front]) -> dict[tuple[int, int], _Front]:
        following: dict[tuple[int, int], _Front] = {}
        for front in level.values():
            if front.states:
                self._drop_dominated(front)
        states = sorted(
            ((state.cost + front.rest_ns, front, state) for front in level.values() for state in front.states.values()),
            key=lambda entry: entry[0],
        )
        transitions: dict[tuple[int, int], _Transition] = {}
        quota = self._evaluated + self._width
        for promise, front, state in states:
            if promise >= self._limit:
                break
            if self._evaluated >= quota:
                self._left_out = min(self._left_out, promise)
                break
            taken = [0] * len(self._problem.devices)
            for operation in front.ready:
                for device, figure in enumerate(self._base_ns[operation]):
                    if figure == inf:
                        continue
                    if taken[device] == self._choices:
                        self._left_out = min(self._left_out, promise)
                        continue
                    taken[device] += 1
                    key = (id(front), operation)
                    if key not in transitions:
                        transitions[key] = self._transition(front, operation, following)
                    self._follow(transitions[key], state, device)
        return following

    def _follow(self, transition: _Transition, state: _State, device: int) -> None:
        self._evaluated += 1
        values, codes = self._problem.values, state.codes
        opens = device != state.device
        cost = state.cost + self._base_ns[transition.operation][device]
        if opens:
            cost += self._problem.step_ns[device]
        for operand, place in transition.reads:
            code = codes[place] if place >= 0 else 0
            if opens or not code & 1:
                cost += values[operand].edge_ns[code >> 1][device]
        target = transition.target
        if cost + target.rest_ns >= self._limit:
            return
        after = []
        for operand, place, writes, touches in transition.live:
            code = codes[place] if place >= 0 else 0
            table = values[operand].edge_ns
            origin = self._origins[id(table)][device + 1] if writes else code >> 1
            here = (touches or (code & 1 and not opens)) and table[origin][device] > 0
            after.append(origin << 1 | here)
        key = (device, tuple(after))
        known = target.states.get(key)
        if known is None or cost < known.cost:
            target.states[key] = _State(cost, device, key[1], transition.operation, state)

    def _transition(self, front: _Front, operation: int, following: dict[tuple[int, int], _Front]) -> _Transition:
        problem = self._problem
        places = {operand: place for place, operand in enumerate(front.live)}
        reads, writes = problem.reads[operation], problem.writes[operation]
        left = dict(front.live)
        for operand in reads:
            left[operand] = left.get(operand, len(problem.values[operand].readers)) - 1
        for operand in writes:
            left[operand] = len(problem.values[operand].readers)
        live = {operand: left[operand] for operand in sorted(left) if left[operand]}
        base, mask = front.base, front.mask | 1 << (operation - front.base)
        while mask & 1:
            base, mask = base + 1, mask >> 1
        target = following.get((base, mask))
        if target is None:
            target = _Front(base, mask, (), live, max(0.0, front.rest_ns - self._least_ns[operation]))
            waiting = {n for n in self._consumers[operation] if all(map(target.has_done, problem.needs[n]))}
            target.ready = tuple(sorted(waiting.union(front.ready) - {operation}))
            following[base, mask] = target
        return _Transition(
            operation,
            target,
            tuple((operand, places.get(operand, -1)) for operand in reads),
            tuple((o, places.get(o, -1), o in writes, o in writes or o in reads) for o in live),
        )

    def _with_exports(self, operation: int) -> list[float]:
        """What an operation takes on each device, with what its outputs take on their way to the client."""
        outputs = [self._problem.values[o] for o in self._problem.writes[operation]]
        return [
            figure + sum(value.export_ns[device + 1] for value in outputs if value.is_output)
            for device, figure in enumerate(self._problem.operation_ns[operation])
        ]


def _origins(edge_ns: tuple[tuple[float, ...], ...]) -> list[int]:
    """For each source the first one from which everything costs the same: states need not tell them apart."""
    return [edge_ns.index(row) for row in edge_ns]


def _excess(edge_ns: tuple[tuple[float, ...], ...]) -> list[list[float]]:
    """By how much passing a value from one source may cost more than from another one, to whichever device."""
    return [
        [
            max(ours - theirs if ours > theirs else 0.0 for ours, theirs in zip(row, other, strict=True))
            for other in edge_ns
        ]
        for row in edge_ns
    ]


def _groups(end: _State) -> tuple[Group, ...]:
    groups: list[tuple[int, list[int]]] = []
    state: _State | None = end
    while state is not None and state.before is not None:
        if not groups or groups[-1][0] != state.device:
            groups.append((state.device, []))
        groups[-1][1].append(state.operation)
        state = state.before
    return tuple((device, tuple(sorted(operations))) for device, operations in reversed(groups))
