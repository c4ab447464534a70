"""Each rule as a test of the device that the fixture ``nnhal_device`` gives."""

from __future__ import annotations

import pytest

from nnhal.endpoint import Endpoint
from nnhal_conformance import RULES, Known, Rule, Verdict, ask_rule
from nnhal_conformance.plugin import SECONDS


def params() -> list[object]:
    """Return the rules as parameters of a test, with the rows that each shows."""
    return [
        pytest.param(each, marks=[pytest.mark.contract(*each.rows)] if each.rows else [], id=each.id)
        for each in RULES.values()
    ]


@pytest.mark.parametrize("rule", params())
def test_rule(nnhal_device: Endpoint, nnhal_known: Known, rule: Rule) -> None:
    """Ask about one rule. It is skipped if the device does not offer what the rule is about, and need not."""
    result = ask_rule(rule, nnhal_device, SECONDS, nnhal_known)
    if result.verdict is Verdict.NOT_OFFERED:
        pytest.skip(result.words)
    assert result.verdict is Verdict.PASSED, f"{rule.sentence} {result.words}"
