"""Script that is left of one that shows a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from nnhal_tools.stress import Act, ClientScript, StressFinding, StressReport, StressScript, reduce_script
from nnhal_tools.stress.supervisor import Watch

TEXT = "DEVICE_UNAVAILABLE: no device; allowed: NONE"


def report_of(texts: Iterable[str] = (), client: int = 0, leftovers: Iterable[str] = ()) -> StressReport:
    """A report with violations of these texts by a client."""
    report = StressReport("npu", 1, leftovers=list(leftovers))
    report.findings += [StressFinding(client, 1, 0, 0, "execute", "", text) for text in texts]
    return report


class Device:
    """Runs scripts without a process: the rule says what comes of one."""

    def __init__(self, rule: Callable[[StressScript], Iterable[str]]) -> None:
        self.rule = rule
        self.runs: list[StressScript] = []

    def __call__(self, script: StressScript, over: Watch, /) -> StressReport:
        self.runs.append(script)
        report = report_of(self.rule(script))
        assert over(report) == (TEXT in self.rule(script))
        return report


def script_of(clients: int = 6, threads: int = 3, acts: int = 40) -> StressScript:
    """A script whose actions all have other seeds."""
    numbers = iter(range(clients * threads * acts))
    return StressScript(
        4,
        tuple(
            ClientScript(n, n, tuple(tuple(Act("execute", next(numbers)) for _ in range(acts)) for _ in range(threads)))
            for n in range(clients)
        ),
    )


def seeds(script: StressScript) -> list[list[int]]:
    """The seeds of the actions that are left, for each client."""
    return [[act.seed for acts in client.threads for act in acts] for client in script.clients]


def needs(*wanted: int) -> Callable[[StressScript], Iterable[str]]:
    """A rule: the violation comes if all these actions are there, and another one always."""
    return lambda script: (
        ["wrong output", TEXT] if set(wanted) <= {seed for acts in seeds(script) for seed in acts} else ["wrong output"]
    )


def test_one_action_of_one_client_is_left() -> None:
    device = Device(needs(333))
    found: list[StressScript] = []
    reduced = reduce_script(script_of(), report_of([TEXT], client=2), device, 3, found.append)
    assert reduced is not None
    assert seeds(reduced.script) == [[333]]
    assert reduced.script.clients[0].client == 2
    assert found[-1] == reduced.script
    assert (reduced.shown, reduced.of, reduced.is_least) == (3, 3, True)
    assert len(device.runs) == reduced.runs + 3
    assert reduced.scripts < 60


def test_what_needs_two_clients_keeps_them() -> None:
    device = Device(needs(5, 333, 334))
    reduced = reduce_script(script_of(), report_of([TEXT], client=2), device, 1)
    assert reduced is not None
    assert seeds(reduced.script) == [[5], [333, 334]]
    assert [len(client.threads) for client in reduced.script.clients] == [1, 1]


def test_a_session_that_does_nothing_may_be_what_it_takes() -> None:
    device = Device(lambda script: [TEXT] if len(script.clients) > 1 and any(333 in s for s in seeds(script)) else [])
    reduced = reduce_script(script_of(), report_of([TEXT], client=2), device, 1)
    assert reduced is not None
    assert sorted(map(len, seeds(reduced.script))) == [0, 1]


def test_a_violation_that_comes_in_some_runs_only_is_found_by_more_tries_and_its_share_is_told() -> None:
    random = Random(4)
    rule = needs(333)
    device = Device(lambda script: rule(script))

    def sometimes(script: StressScript, over: Watch, /) -> StressReport:
        device.runs.append(script)
        return report_of(rule(script)) if random.random() < 0.4 else report_of()

    reduced = reduce_script(script_of(), report_of([TEXT], client=2), sometimes, 8)
    assert reduced is not None
    assert seeds(reduced.script) == [[333]]
    assert 0 < reduced.shown < reduced.of == 8
    assert reduced.runs > reduced.scripts


def test_a_violation_of_another_kind_is_not_what_is_sought() -> None:
    device = Device(lambda _: ["GENERAL_FAILURE: no device; allowed: NONE"])
    assert reduce_script(script_of(), report_of([TEXT]), device, 2) is None
    assert len(device.runs) == 2


def test_what_is_left_in_a_device_is_reduced_too() -> None:
    def run(script: StressScript, over: Watch, /) -> StressReport:
        leaks = sum(seed == 7 for acts in seeds(script) for seed in acts)
        report = report_of(leftovers=[f"usage: buffers: {leaks + 4}, was 4"] if leaks else [])
        assert over(report) == bool(leaks)
        return report

    reduced = reduce_script(script_of(), report_of(leftovers=["usage: buffers: 9, was 4"]), run, 1)
    assert reduced is not None
    assert seeds(reduced.script) == [[7]]
    assert reduced.kind == "usage: buffers: , was"
