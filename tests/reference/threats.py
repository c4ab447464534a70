"""docs/reference/threats.md: threats, and what holds them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[1] / "threats.toml"
_PAGE = """# Threats

`tests/threats.toml` also names the tests that show each row.
[Security](../security.md) says who is who, and how to set up a host.

| who | tries to | what holds | what does not |
|---|---|---|---|
{threats}

## Fuzzed readers

`make fuzz` gives each reader mutated inputs. It looks for undocumented errors, for too much time or memory, for
refusals that show the inside of the process, and for its end.

| targets | input |
|---|---|
{fuzzed}
"""


class Threat(NamedTuple):
    """An attempt of somebody, its remedy, the gap that remains, and the tests that show both."""

    who: str
    tries: str
    holds: str
    tests: tuple[str, ...]
    but: str = ""


class Fuzzed(NamedTuple):
    """Targets of the fuzzer, and the input that they read."""

    targets: tuple[str, ...]
    reads: str


def read_threats() -> tuple[list[Threat], list[Fuzzed]]:
    """Read the file. Raises TypeError for an unknown or a missing key."""
    given = tomllib.loads(FILE.read_text())
    return [Threat(**each) for each in given["threat"]], [Fuzzed(**each) for each in given["fuzzed"]]


def threats_page() -> str:
    """Return the text of the page."""
    threats, fuzzed = read_threats()
    return _PAGE.format(
        threats="\n".join(f"| {each.who} | {each.tries} | {each.holds} | {each.but} |" for each in threats),
        fuzzed="\n".join(f"| {', '.join(f'`{name}`' for name in each.targets)} | {each.reads} |" for each in fuzzed),
    )
