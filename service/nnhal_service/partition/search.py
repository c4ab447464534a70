"""Find the plan of least modelled time by dynamic programming over the operations that are done, level by level.

A plan is built operation by operation: each one either joins the open step or opens one on another device. The cost of
the rest then depends on which operations are done, on the device of the open step, and for each value that is still to
be read, on its source, on whether it has left that, and on whether the open step has it. Partial plans that agree in
these are the same state, and the cheapest one is kept. Level n has the states with n operations done. On a chain there
is one state for each device and level; on trees and series-parallel graphs the number of states is multiplied by the
open branches.

Two kinds of states cannot become the best, and are left out without loss. The cost of the first, with a lower bound of
the rest (each operation on the device that is fastest for it), reaches the cost of a known plan. The second is no
cheaper than the cheapest state with the same operations done would be if it continued in the same way, which adds a
launch and the difference of its values' sources.

Beyond that a level evaluates at most ``width`` transitions, those of the states with the lowest bounds, so that time is
linear in the number of operations. No plan takes less than the lowest bound among the states that are left out for
lack of width. The result contains this bound.

One thing costs less here than by the objective: a device that keeps its values is taken to keep one for its own steps
until another device reads it. The bound holds all the same, since it is too low, if anything.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from nnhal_service.partition.grow import Group
from nnhal_service.partition.problem import Problem, ProblemValue

_PASSED = 16
"""The fields of values that are no longer read are dropped when there are this many of them."""
_MOST_COMPARED = 64
"""Values or readers that a bound looks at one by one; beyond that it is taken to be higher, which loses nothing."""
_SLACK = 1 + 1e-9
"""Sums of the same terms in another order differ by rounding, up to this factor."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    groups: tuple[Group, ...] | None
    """None if no plan takes less than the limit."""
    lower_bound_ns: float
    """No plan takes less."""
    evaluated: int
    """Transitions that were evaluated."""


def search(problem: Problem, limit_ns: float, effort: int = 100_000, narrow: int = 64) -> SearchResult:
    """Search for the cheapest plan that takes less than ``limit_ns``.

    The first round has the width ``narrow``. The width is multiplied by four until the search is exact or the next
    round could evaluate more than ``effort`` transitions. There is no round if a plan is known that nothing can beat.
    """
    floor_ns = floor_of(problem)
    if limit_ns <= floor_ns * _SLACK:
        return SearchResult(None, floor_ns, 0)
    width, evaluated, groups, lower = narrow, 0, None, 0.0
    while True:
        found = _Round(problem, limit_ns, width)
        end = found.run()
        evaluated += found.evaluated
        if end is not None:
            groups, limit_ns = _groups(end), end.cost
        lower = max(lower, min(found.left_out, limit_ns))
        width *= 4
        if found.left_out == inf or found.evaluated * 4 > effort:
            return SearchResult(groups, lower, evaluated)


def floor_of(problem: Problem) -> float:
    """Return a time that no plan is below, in nanoseconds: one launch, every operation on the device that is fastest
    for it, and every input and output of the model passed once, in the cheapest way.

    A device that takes the whole model reaches it if no other is faster at anything.
    """
    written = {operand for operands in problem.writes for operand in operands}
    launch_ns = min(problem.step_ns, default=0.0)
    compute_ns = sum(min(figures, default=0.0) for figures in problem.operation_ns)
    passed_ns = 0.0
    for operand, value in problem.values.items():
        if value.readers and operand not in written:
            passed_ns += min(value.edge_ns[0])
        if value.is_output and operand in written:
            passed_ns += min(value.export_ns[1:])
    return launch_ns + compute_ns + passed_ns


@dataclass(slots=True, eq=False)
class _State:
    """The cheapest partial plan of a state."""

    cost: float
    device: int
    """The device of the open step."""
    codes: int
    """A field of bits for each value, in the order of values.

    A field has the value's source (as in ProblemValue), and in the lowest bit whether the open step has the value and
    would otherwise have to pay for it. It is 0 if the value is not read any more, or is an input of the model that
    nothing has read.
    """
    operation: int = -1
    """The operation that was done last."""
    before: _State | None = None
    """The state before that operation."""


@dataclass(slots=True, eq=False)
class _Frontier:
    """A set of operations that are done: all below ``base``, and ``base + n`` for each bit n of ``mask``."""

    base: int
    mask: int
    ready: list[int]
    rest_ns: float
    """The least time of the operations that are not done."""
    states: dict[tuple[int, int], _State] = field(default_factory=dict)
    """By device and codes."""

    def has_done(self, operation: int) -> bool:
        return operation < self.base or bool(self.mask >> (operation - self.base) & 1)


@dataclass(frozen=True, slots=True)
class _Table:
    """The costs of passing values of one size. Sources are numbered as in ProblemValue."""

    edge_ns: tuple[tuple[float, ...], ...]
    origins: list[int]
    """For each source the first one with the same costs, since states need not tell such sources apart."""
    after_export: list[int]
    """The source after the client has the value, by the one before."""
    after: list[list[int]]
    """The source after a device has read the value, by the one before and the device."""
    excess: list[list[float]]
    """The largest extra cost of passing a value from one source rather than another, over all devices."""

    @classmethod
    def of(cls, value: ProblemValue) -> _Table:
        """Return the costs of values such as this one."""
        rows = value.edge_ns
        origins = [rows.index(row) for row in rows]
        left = [value.left(source) if 1 <= source <= len(rows) // 2 else source for source in range(len(rows))]
        exported = [origins[source] for source in left]
        after = [
            [exported[source] if rows[left[source]][device] < price else source for device, price in enumerate(row)]
            for source, row in enumerate(rows)
        ]
        ways = [{rows[source], rows[left[source]]} for source in range(len(rows))]
        excess = [[max(_excess(row, other) for row in mine for other in theirs) for theirs in ways] for mine in ways]
        return cls(rows, origins, exported, after, excess)


@dataclass(frozen=True, slots=True)
class _Transition:
    """An operation that leads from one frontier to another."""

    operation: int
    target: _Frontier
    reads: tuple[tuple[_Table, int, bool], ...]
    """The costs of the values that it reads, the first bit of their fields, and whether they are read again."""
    writes: tuple[tuple[_Table, int, bool], ...]
    """The costs of the values that it writes, the first bit of their fields, and whether the client reads them."""


class _Round:
    """A search with one width."""

    def __init__(self, problem: Problem, limit_ns: float, width: int) -> None:
        self.evaluated = 0
        self.left_out = inf
        self._problem = problem
        self._limit = limit_ns / _SLACK
        self._width = width
        self._choices = max(4, width // 24)
        self._consumers: list[list[int]] = [[] for _ in problem.needs]
        for number, needs in enumerate(problem.needs):
            for producer in needs:
                self._consumers[producer].append(number)
        # The last comes first, as the likeliest not to be done.
        self._needs = [sorted(needs, reverse=True) for needs in problem.needs]
        self._base_ns = [self._with_exports(number) for number in range(len(problem.reads))]
        self._least_ns = [min(figures) for figures in self._base_ns]
        alike = {id(value.edge_ns): value for value in problem.values.values()}  # those of one size share their costs
        self._tables = {key: _Table.of(value) for key, value in alike.items()}
        self._bits = 1 + max((max(table.origins) for table in self._tables.values()), default=0).bit_length()
        self._field = (1 << self._bits) - 1
        self._operands = list(problem.values)
        self._places = {operand: place for place, operand in enumerate(self._operands)}
        self._first = 0
        everywhere = ((1 << self._bits * len(self._operands)) - 1) // self._field
        self._sources = everywhere * (self._field - 1)

    def run(self) -> _State | None:
        """Return the cheapest state with all operations done; None if none is below the limit."""
        start = _Frontier(0, 0, [n for n, needs in enumerate(self._problem.needs) if not needs], sum(self._least_ns))
        start.states[(-1, 0)] = _State(0.0, -1, 0)
        level = [start]
        for _ in self._problem.reads:
            level = self._advance(level)
        ends = (state for frontier in level for state in frontier.states.values())
        return min(ends, key=lambda state: state.cost, default=None)

    def _advance(self, level: list[_Frontier]) -> list[_Frontier]:
        """Return the next level."""
        following: dict[tuple[int, int], _Frontier] = {}
        states = sorted(
            (
                (state.cost + frontier.rest_ns, frontier, state)
                for frontier in level
                for state in self._worthwhile(frontier)
            ),
            key=lambda entry: entry[0],
        )
        moves: dict[int, tuple[list[tuple[_Transition, int]], bool]] = {}
        quota = self.evaluated + self._width
        for promise, frontier, state in states:
            if promise >= self._limit:
                break
            if self.evaluated >= quota:
                self.left_out = min(self.left_out, promise)
                break
            if id(frontier) not in moves:
                moves[id(frontier)] = self._moves(frontier, following)
            chosen, all_of_them = moves[id(frontier)]
            for transition, device in chosen:
                self._follow(transition, state, device)
            if not all_of_them:
                self.left_out = min(self.left_out, promise)
        for _, _, state in states:
            state.codes = 0  # a long search keeps many states; of the old ones only the path is needed
        frontiers = [frontier for frontier in following.values() if frontier.states]
        self._shorten(frontiers)
        return frontiers

    def _shorten(self, level: list[_Frontier]) -> None:
        """Drop the first fields of all codes if no frontier reads their values any more."""
        first = self._first
        while first < len(self._operands) and not any(
            self._lives(self._operands[first], frontier) for frontier in level
        ):
            first += 1
        if first - self._first < _PASSED:
            return
        for frontier in level:
            for state in frontier.states.values():
                state.codes >>= self._bits * (first - self._first)
            frontier.states = {(state.device, state.codes): state for state in frontier.states.values()}
        self._first = first

    def _moves(
        self, frontier: _Frontier, following: dict[tuple[int, int], _Frontier]
    ) -> tuple[list[tuple[_Transition, int]], bool]:
        """Return the next transitions with their devices, and whether these are all.

        Each device gets only the first few operations that are ready.
        """
        moves = []
        left_out = False
        taken = [0] * len(self._problem.devices)
        for operation in frontier.ready:
            devices = [device for device, figure in enumerate(self._base_ns[operation]) if figure < inf]
            allowed = [device for device in devices if taken[device] < self._choices]
            left_out = left_out or allowed != devices
            if not allowed and left_out and min(taken) >= self._choices:
                break  # no device takes another, however many are ready
            if allowed:
                transition = self._transition(frontier, operation, following)
                moves += [(transition, device) for device in allowed]
            for device in allowed:
                taken[device] += 1
        return moves, not left_out

    def _follow(self, transition: _Transition, state: _State, device: int) -> None:
        self.evaluated += 1
        opens = device != state.device
        codes, cost = state.codes, state.cost + self._base_ns[transition.operation][device]
        if opens:
            codes &= self._sources
            cost += self._problem.step_ns[device]
        for table, shift, lives in transition.reads:
            code = codes >> shift & self._field
            if not code & 1:
                cost += table.edge_ns[code >> 1][device]
            if not lives:
                codes ^= code << shift
            elif not code & 1:
                origin = table.after[code >> 1][device]
                codes ^= (code ^ (origin << 1 | (table.edge_ns[origin][device] > 0))) << shift
        target = transition.target
        if cost + target.rest_ns >= self._limit:
            return
        for table, shift, is_output in transition.writes:
            origin = (table.after_export if is_output else table.origins)[device + 1]
            codes |= (origin << 1 | (table.edge_ns[origin][device] > 0)) << shift
        known = target.states.get((device, codes))
        if known is None or cost < known.cost:
            target.states[device, codes] = _State(cost, device, codes, transition.operation, state)

    def _transition(
        self, frontier: _Frontier, operation: int, following: dict[tuple[int, int], _Frontier]
    ) -> _Transition:
        problem = self._problem
        base, mask = frontier.base, frontier.mask | 1 << (operation - frontier.base)
        while mask & 1:
            base, mask = base + 1, mask >> 1
        target = following.get((base, mask))
        if target is None:
            ready = frontier.ready.copy()
            ready.remove(operation)
            target = _Frontier(base, mask, ready, max(0.0, frontier.rest_ns - self._least_ns[operation]))
            for number in self._consumers[operation]:
                if all(map(target.has_done, self._needs[number])):
                    insort(ready, number)
            following[base, mask] = target
        return _Transition(
            operation,
            target,
            tuple(
                (self._table(operand), self._shift(operand), self._lives(operand, target))
                for operand in problem.reads[operation]
            ),
            tuple(
                (self._table(operand), self._shift(operand), problem.values[operand].is_output)
                for operand in problem.writes[operation]
                if problem.values[operand].readers
            ),
        )

    def _table(self, operand: int) -> _Table:
        return self._tables[id(self._problem.values[operand].edge_ns)]

    def _shift(self, operand: int) -> int:
        """Return the first bit of a value's field."""
        return self._bits * (self._places[operand] - self._first)

    def _lives(self, operand: int, frontier: _Frontier) -> bool:
        """Return whether a value is still to be read. The last reader comes first, as the likeliest to be left."""
        return not all(map(frontier.has_done, reversed(self._problem.values[operand].readers)))

    def _worthwhile(self, frontier: _Frontier) -> Iterator[_State]:
        """Yield the states of a frontier that may become cheaper than its cheapest one."""
        best = min(frontier.states.values(), key=lambda state: state.cost)
        for state in frontier.states.values():
            if state is best or state.cost < best.cost + self._switch_ns(frontier, best, state):
                yield state

    def _switch_ns(self, frontier: _Frontier, mine: _State, theirs: _State) -> float:
        """Return an upper bound of the cost of continuing from ``mine`` in the way that ``theirs`` would."""
        total = 0.0
        codes = mine.codes
        if mine.device != theirs.device:
            total = self._problem.step_ns[theirs.device]
            codes &= self._sources
        different = codes ^ theirs.codes
        if different.bit_count() > _MOST_COMPARED:
            return inf
        while different:
            place = ((different & -different).bit_length() - 1) // self._bits
            shift = self._bits * place
            different &= ~(self._field << shift)
            code, wanted = codes >> shift & self._field, theirs.codes >> shift & self._field
            value = self._problem.values[self._operands[self._first + place]]
            if code >> 1 != wanted >> 1:
                readers = value.readers
                left = len(readers) if len(readers) > _MOST_COMPARED else sum(not frontier.has_done(n) for n in readers)
                total += left * self._tables[id(value.edge_ns)].excess[code >> 1][wanted >> 1]
            if wanted & 1 and not code & 1:
                total += value.edge_ns[code >> 1][theirs.device]
        return total

    def _with_exports(self, operation: int) -> list[float]:
        """Return the time of an operation on each device, with that of passing its outputs to the client."""
        outputs = [self._problem.values[operand] for operand in self._problem.writes[operation]]
        return [
            figure + sum(value.export_ns[device + 1] for value in outputs if value.is_output)
            for device, figure in enumerate(self._problem.operation_ns[operation])
        ]


def _excess(row: Sequence[float], other: Sequence[float]) -> float:
    """Return how much more one row of costs has than another, at most."""
    return max((ours - theirs if ours > theirs else 0.0 for ours, theirs in zip(row, other, strict=True)), default=0.0)


def _groups(end: _State) -> tuple[Group, ...]:
    groups: list[tuple[int, list[int]]] = []
    state: _State | None = end
    while state is not None and state.before is not None:
        if not groups or groups[-1][0] != state.device:
            groups.append((state.device, []))
        groups[-1][1].append(state.operation)
        state = state.before
    return tuple((device, tuple(sorted(operations))) for device, operations in reversed(groups))
