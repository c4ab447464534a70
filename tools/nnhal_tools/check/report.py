"""Reports of checks: lines for people, and a file of JUnit's XML for CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from nnhal_pages.explanation.marks import counted
from nnhal_tools.check.check import Check
from nnhal_tools.check.runner import CheckResult, CheckVerdict

_STYLES = {
    CheckVerdict.PASSED: "green",
    CheckVerdict.FAILED: "bold red",
    CheckVerdict.NOT_OFFERED: "yellow",
    CheckVerdict.NOT_ASKED: "bold red",
}
_WIDTH = max(len(verdict) for verdict in CheckVerdict)
BAD = (CheckVerdict.FAILED, CheckVerdict.NOT_ASKED)
"""What keeps a device from passing."""


class Printed:
    """Prints results as they come, below the names of their groups. What was not asked or is not offered
    is said at the end of a group, once for each reason."""

    def __init__(self, console: Console) -> None:
        self._console, self._group = console, ""
        self._grouped: dict[tuple[CheckVerdict, str], list[str]] = {}

    def show(self, result: CheckResult) -> None:
        check = result.check
        if check.group != self._group:
            self._end_group()
            self._group = check.group
            self._console.print(Text(check.group, "bold"))
        if result.verdict in (CheckVerdict.NOT_OFFERED, CheckVerdict.NOT_ASKED):
            self._grouped.setdefault((result.verdict, result.words), []).append(check.name)
        elif result.verdict is CheckVerdict.FAILED:
            self._line(result.verdict, f"{check.name}: {check.sentence} {result.words} ({where(check)})")
        else:
            self._line(result.verdict, f"{check.name}: {check.sentence}")

    def _line(self, verdict: CheckVerdict, words: str) -> None:
        line = Text(f"  {verdict.value:<{_WIDTH}}  ", _STYLES[verdict])
        self._console.print(line.append(words, "default"), soft_wrap=True)

    def _end_group(self) -> None:
        for (verdict, words), names in self._grouped.items():
            self._line(verdict, f"{', '.join(names)}: {words}")
        self._grouped.clear()

    def end(self, results: Sequence[CheckResult]) -> None:
        """Print how many checks ended in each way."""
        self._end_group()
        counts = Counter(result.verdict for result in results)
        words = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in CheckVerdict if counts[verdict])
        self._console.print(f"{counted(len(results), 'check')}: {words}")


def show_list(console: Console, checks: Iterable[Check]) -> None:
    """Print what each check asks, and where the documentation says so."""
    for check in checks:
        console.print(Text(f"{check.id}: {check.sentence} ({where(check)})"), soft_wrap=True)


def where(check: Check) -> str:
    """Page of the documentation and row of the contract for a check."""
    return ", ".join([f"docs/{check.page}", *check.rows])


def junit(device: str, results: Sequence[CheckResult]) -> bytes:
    """Return the results as JUnit's XML: a test suite for each group."""
    root = ElementTree.Element("testsuites", name=f"nnhal check {device}")
    for group in dict.fromkeys(result.check.group for result in results):
        of_group = [result for result in results if result.check.group == group]
        suite = ElementTree.SubElement(root, "testsuite", {"name": group, **_counts(of_group)})
        for result in of_group:
            case = ElementTree.SubElement(
                suite, "testcase", classname=group, name=result.check.name, time=f"{result.seconds:.3f}"
            )
            if result.verdict in BAD:
                words = f"{result.words} ({where(result.check)})"
                ElementTree.SubElement(case, "failure", message=_printable(words)).text = result.check.sentence
            elif result.verdict is CheckVerdict.NOT_OFFERED:
                ElementTree.SubElement(case, "skipped", message=_printable(result.words))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return text


def write_junit(file: Path, device: str, results: Sequence[CheckResult]) -> None:
    """Write the results as JUnit's XML. Raises OSError."""
    file.write_bytes(junit(device, results))


def _counts(results: Sequence[CheckResult]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(result.verdict in BAD for result in results)),
        "skipped": str(sum(result.verdict is CheckVerdict.NOT_OFFERED for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _printable(text: str) -> str:
    """A text without characters that XML cannot hold; a device may have said anything."""
    return "".join(character if character.isprintable() else " " for character in text)
