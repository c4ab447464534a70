"""The report of a run: in a terminal, as JSON, as JUnit's XML for CI, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nnhal_pages.document import Figure
from nnhal_pages.explanation.marks import counted
from nnhal_pages.report import Column, FigureCards, Name, PagePart, ReportTable, TerminalPart, report_page
from nnhal_tools.cases.case import VALUES, Case, CaseOutcome, Verdict
from nnhal_tools.junit import JunitCase, junit

_SHOWN = 20
"""Failures that are printed; files have them all."""
_SHOWN_REASONS = 8
_Row = tuple[tuple[str, str], Counter[Verdict]]
_OPERATION: Column[_Row] = Column("operation", lambda row: row[0][0])
_TYPE: Column[_Row] = Column("type", lambda row: row[0][1])


class CaseReport:
    """The outcomes of cases, with what is to be said besides. A source of other cases may show more of them."""

    def __init__(self, title: str, noun: str, notes: Sequence[str] = ()) -> None:
        """``title`` says what ran on what, ``noun`` what one case is called."""
        self.title, self.noun = title, noun
        self.notes = list(notes)
        """What a reader has to know, in sentences."""
        self.left_out: Counter[str] = Counter()
        """How many calls of a recording are no cases, by the reason."""
        self.found: dict[int, Sequence[CaseOutcome]] = {}
        """The outcomes of each case, by its number."""
        self.wrong: dict[int, tuple[int, Case]] = {}
        """The first case of each model whose values are wrong, with its number, by the identity of the model."""

    def add(self, number: int, case: Case, outcomes: Sequence[CaseOutcome]) -> None:
        """Note how a case has ended."""
        self.found[number] = outcomes
        if any(outcome.failure == VALUES for outcome in outcomes):
            self.wrong.setdefault(id(case.model), (number, case))

    @property
    def outcomes(self) -> list[CaseOutcome]:
        """All outcomes, in the order of their cases."""
        return [outcome for _, outcomes in sorted(self.found.items()) for outcome in outcomes]

    @property
    def failures(self) -> list[CaseOutcome]:
        """The outcomes of cases that have failed."""
        return [outcome for outcome in self.outcomes if outcome.verdict == Verdict.FAILED]

    def summary(self) -> str:
        """Say how it ended, in a line."""
        total = Counter(outcome.verdict for outcome in self.outcomes)
        counts = ", ".join(f"{total[verdict]} {verdict.value}" for verdict in Verdict)
        return f"{counted(len(self.outcomes), self.noun)}: {counts}"

    def told(self) -> list[str]:
        """Return the notes: also why cases were declined, and what was left out, once for each reason."""
        declined = Counter(each.reason for each in self.outcomes if each.verdict == Verdict.DECLINED).most_common()
        more = len(declined) - _SHOWN_REASONS
        return [
            *(f"note: {note}" for note in self.notes),
            *(f"{count} declined: {reason}" for reason, count in declined[:_SHOWN_REASONS]),
            *([f"… and {counted(more, 'other reason')} for which it declines"] if more > 0 else []),
            *(f"left out: {count} {reason}" for reason, count in self.left_out.items()),
        ]

    def parts(self) -> list[TerminalPart]:
        """Return what a terminal shows."""
        failures = self.failures
        lines = [line for outcome in failures[:_SHOWN] for line in _lines(outcome)]
        more = [f"… and {len(failures) - _SHOWN} more failures"] if len(failures) > _SHOWN else []
        return [self._counts(), *self.told(), *lines, *more, self.summary()]

    def sections(self) -> list[tuple[str, list[PagePart]]]:
        """Return what a page shows, by headings."""
        total = Counter(outcome.verdict for outcome in self.outcomes)
        cards = FigureCards([Figure(verdict.value.capitalize(), str(total[verdict]), "") for verdict in Verdict])
        columns: list[Column[CaseOutcome]] = [
            Column(self.noun, lambda outcome: Name(outcome.name)),
            Column("from", lambda outcome: Name(outcome.group)),
            Column("executed", _way),
            Column("failure", lambda outcome: outcome.failure),
            Column("reason", lambda outcome: outcome.reason),
            Column("where", lambda outcome: outcome.origin),
        ]
        failures = ReportTable("", columns, self.failures, "failures", "What has failed, and how")
        return [("Summary", [cards, self.summary(), *self.told()]), ("Failures", [failures]), ("All", [self._counts()])]

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has."""
        return {
            "title": self.title,
            "notes": self.notes,
            "left_out": self.left_out,
            "cases": [asdict(outcome) for outcome in self.outcomes],
        }

    def page(self) -> str:
        """Return a whole HTML document."""
        return report_page(self.title, self.sections(), self.sheet())

    def sheet(self) -> str:
        """Return the style of its page alone."""
        return ""

    def junit(self) -> bytes:
        """Return JUnit's XML: a suite for each group. Declined cases are skipped."""
        suites: dict[str, list[JunitCase]] = {}
        for outcome in self.outcomes:
            failure, declined = (
                outcome.reason or outcome.failure or verdict.value if outcome.verdict == verdict else ""
                for verdict in (Verdict.FAILED, Verdict.DECLINED)
            )
            case = JunitCase(f"{outcome.name}, {_way(outcome)}", 0.0, failure, declined, outcome.origin)
            suites.setdefault(outcome.group, []).append(case)
        return junit(self.title, suites)

    def _counts(self) -> ReportTable[_Row]:
        counts: dict[tuple[str, str], Counter[Verdict]] = {}
        for outcome in self.outcomes:
            counts.setdefault((outcome.operation, outcome.type), Counter())[outcome.verdict] += 1

        def count(verdict: Verdict) -> Column[_Row]:
            return Column(verdict.value, lambda row: str(row[1][verdict] or ""), number=True)

        columns = [_OPERATION, _TYPE, *map(count, Verdict)]
        return ReportTable("", columns, sorted(counts.items()), "operations", "By operations and their types")


def _way(outcome: CaseOutcome) -> str:
    return f"{outcome.mode} over {outcome.memory}"


def _lines(outcome: CaseOutcome) -> list[str]:
    line = f"{outcome.name}, {_way(outcome)}: {outcome.reason}"
    return [line, f"  {outcome.origin}"] if outcome.origin else [line]
