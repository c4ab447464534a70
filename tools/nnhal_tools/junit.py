"""JUnit's XML, which CI reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree


class JunitCase(NamedTuple):
    """A test that was asked for. It has passed unless it has failed or was skipped."""

    name: str
    seconds: float = 0.0
    failure: str = ""
    """What is wrong."""
    skipped: str = ""
    """Why it was not run."""
    detail: str = ""
    """More about a failure."""


def junit(title: str, suites: Mapping[str, Sequence[JunitCase]]) -> bytes:
    """Return test suites by their names as JUnit's XML."""
    root = ElementTree.Element("testsuites", name=title)
    for name, cases in suites.items():
        counts = {
            "tests": str(len(cases)),
            "failures": str(sum(bool(case.failure) for case in cases)),
            "skipped": str(sum(bool(case.skipped) for case in cases)),
            "time": f"{sum(case.seconds for case in cases):.3f}",
        }
        suite = ElementTree.SubElement(root, "testsuite", {"name": _printable(name), **counts})
        for case in cases:
            made = ElementTree.SubElement(
                suite, "testcase", classname=_printable(name), name=_printable(case.name), time=f"{case.seconds:.3f}"
            )
            if case.failure:
                ElementTree.SubElement(made, "failure", message=_printable(case.failure)).text = _printable(case.detail)
            elif case.skipped:
                ElementTree.SubElement(made, "skipped", message=_printable(case.skipped))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return text


def _printable(text: str) -> str:
    """A text without characters that XML cannot hold; a device may have said anything."""
    return "".join(character if character.isprintable() else " " for character in text)
