"""Rules, as they describe themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_conformance import GROUPS, RULES, Rule
from nnhal_conformance.rule import INVALID, BrokenRuleError, NotOfferedError, UnservedMethodError, offered, refused
from nnhal_tools.cli.app import app
from tests.contract.table import read_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_says_what_it_asks_and_where_that_is_written(rule: Rule) -> None:
    assert rule.group in GROUPS
    assert rule.sentence.endswith(".")
    page, _, anchor = rule.page.partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    assert not anchor or anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_rows_of_rules_exist_and_apply() -> None:
    applying = {row.id for family in read_table() for row in family.rows if row.not_applicable is None}
    assert {row for rule in RULES.values() for row in rule.rows} <= applying


def test_the_page_has_every_group_and_how_many_rules_it_has() -> None:
    text = (ROOT / "docs/debug_a_driver.md").read_text()
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE))
    groups = [rule.group for rule in RULES.values()]
    assert told == {group: str(groups.count(group)) for group in GROUPS}


def refuse(status: ErrorStatus, message: str) -> None:
    raise HalError(status, message)


def test_a_refusal_needs_its_status_and_a_reason() -> None:
    assert refused(lambda: refuse(INVALID, "5 inputs, expected 2"), INVALID).message == "5 inputs, expected 2"
    with pytest.raises(BrokenRuleError, match="token -2: got success, expected INVALID_ARGUMENT"):
        refused(lambda: None, INVALID, what="token -2")
    with pytest.raises(BrokenRuleError, match="got GENERAL_FAILURE: broken, expected INVALID_ARGUMENT"):
        refused(lambda: refuse(ErrorStatus.GENERAL_FAILURE, "broken"), INVALID)
    with pytest.raises(BrokenRuleError, match="without a message, expected the reason"):
        refused(lambda: refuse(INVALID, ""), INVALID)


def test_what_is_not_served_is_not_offered() -> None:
    def missing() -> None:
        raise UnservedMethodError("Allocate")

    with pytest.raises(NotOfferedError, match="no Allocate: the framework stages values"):
        offered(missing, "the framework stages values")
    with pytest.raises(UnservedMethodError):
        refused(missing, INVALID)


def test_the_checks_can_be_listed_and_chosen() -> None:
    listed = CliRunner().invoke(app, ["check", "--list"]).output.splitlines()
    assert len(listed) == len(RULES)
    some = CliRunner().invoke(app, ["check", "--list", "--only", "bursts", "--only", "link.hello"]).output
    assert some.startswith("link.hello: Hello is answered with Welcome")
    assert "bursts.malformed" in some
    unknown = CliRunner().invoke(app, ["check", "--list", "--only", "burst"])
    assert unknown.exit_code == 2
    assert "got --only burst" in unknown.output
