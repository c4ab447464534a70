"""Reports of rules: lines for people, and a file of JUnit's XML for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nnhal_conformance import BAD, RULES, Rule, RuleResult, Verdict
from nnhal_pages.explanation.marks import counted
from nnhal_tools.junit import JunitCase, junit

_STYLES = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.NOT_OFFERED: "yellow",
    Verdict.NOT_ASKED: "bold red",
}
_WIDTH = max(len(verdict) for verdict in Verdict)


class Printed:
    """Prints results as they come, below the names of their groups, a line for all ways of a rule that passed. What was
    not asked or is not offered is said at the end of a group, once for each reason.
    """

    def __init__(self, console: Console) -> None:
        self._console, self._group = console, ""
        self._passed: list[Rule] = []
        self._grouped: dict[tuple[Verdict, str], list[Rule]] = {}

    def show(self, result: RuleResult) -> None:
        rule = result.rule
        if rule.group != self._group:
            self._end_group()
            self._group = rule.group
            self._console.print(Text(rule.group, "bold"))
        if self._passed and self._passed[0].name != rule.name:
            self._end_rule()
        if result.verdict in (Verdict.NOT_OFFERED, Verdict.NOT_ASKED):
            self._grouped.setdefault((result.verdict, result.words), []).append(rule)
        elif result.verdict is Verdict.FAILED:
            self._line(result.verdict, f"{_name(rule)}: {rule.sentence} {result.words} ({where(rule)})")
        else:
            self._passed.append(rule)

    def _line(self, verdict: Verdict, words: str) -> None:
        line = Text(f"  {verdict.value:<{_WIDTH}}  ", _STYLES[verdict])
        self._console.print(line.append(words, "default"), soft_wrap=True)

    def _end_rule(self) -> None:
        if self._passed:
            self._line(Verdict.PASSED, f"{_names(self._passed)}: {self._passed[0].sentence}")
        self._passed.clear()

    def _end_group(self) -> None:
        self._end_rule()
        for (verdict, words), rules in self._grouped.items():
            self._line(verdict, f"{_names(rules)}: {words}")
        self._grouped.clear()

    def end(self, results: Sequence[RuleResult]) -> None:
        """Print how many rules ended in each way."""
        self._end_group()
        counts = Counter(result.verdict for result in results)
        words = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        self._console.print(f"{counted(len(results), 'rule')}: {words}")


def show_list(console: Console, rules: Iterable[Rule]) -> None:
    """Print what each rule says, and where the documentation says so."""
    for rule in rules:
        console.print(Text(f"{rule.id}: {rule.sentence} ({where(rule)})"), soft_wrap=True)


def where(rule: Rule) -> str:
    """Page of the documentation and rows of the contract for a rule."""
    return ", ".join([f"docs/{rule.page}", *rule.rows])


def _name(rule: Rule) -> str:
    """Name of a rule within its group."""
    return f"{rule.name} ({rule.way})" if rule.way else rule.name


def _names(rules: Sequence[Rule]) -> str:
    """Names of rules of one group, with their ways where they are not all that there are."""
    ways: dict[str, list[str]] = {}
    for rule in rules:
        ways.setdefault(rule.name, []).append(rule.way)
    every = Counter((each.group, each.name) for each in RULES.values())
    return ", ".join(
        name if len(of_rule) == every[rules[0].group, name] else f"{name} ({', '.join(of_rule)})"
        for name, of_rule in ways.items()
    )


def write_junit(file: Path, device: str, results: Sequence[RuleResult]) -> None:
    """Write the results as JUnit's XML, a test suite for each group. Raises OSError."""
    suites: dict[str, list[JunitCase]] = {}
    for result in results:
        rule, words = result.rule, result.words
        suites.setdefault(rule.group, []).append(
            JunitCase(
                _name(rule),
                result.seconds,
                f"{words} ({where(rule)})" if result.verdict in BAD else "",
                words if result.verdict is Verdict.NOT_OFFERED else "",
                rule.sentence,
            )
        )
    file.write_bytes(junit(f"nnhal check {device}", suites))
