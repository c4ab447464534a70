"""The contract map: its rows, the tests that name them, and the command that puts both together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.marked import marks_of
from tests.contract.states import join
from tests.contract.table import ContractError, read_table

ROOT = Path(__file__).parents[1]
FIRST_ROWS = """
title = "Made up"
[rows]
AA-01 = "The first thing."
AA-02 = "The second thing."
AA-03 = "The third thing."
[not_applicable]
AA-03 = "There is no such thing here."
"""
SECOND_ROWS = """
title = "Made up too"
[rows]
BB-01 = "Another thing."
"""
SHOWS_AA_01 = """
import pytest
@pytest.mark.contract("AA-01")
@pytest.mark.parametrize("number", [1, 2])
def test_on_a_function(number): ...
"""
SHOWS_THE_OTHERS = """
import pytest
pytestmark = pytest.mark.contract("BB-01")
@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.contract("AA-02"))])
def test_on_a_module_and_on_a_parameter(number): ...
"""
NAMES = """
import pytest
@pytest.mark.contract({})
def test_names_it(): ...
"""


def folder_of_rows(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.toml").write_text(content)
    return folder


def command(folder: Path, tests: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m tests.contract`` on made-up rows and on these test modules."""
    (folder / "tests").mkdir()
    for number, content in enumerate(tests):
        (folder / "tests" / f"test_{number}.py").write_text(content)
    rows = folder_of_rows(folder / "rows", aa=FIRST_ROWS, bb=SECOND_ROWS)
    given = ["--tests", str(folder / "tests"), "--rows", str(rows), *arguments]
    return subprocess.run(
        [sys.executable, "-m", "tests.contract", *given], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_contract_has_413_rows_in_24_families() -> None:
    families = read_table()
    assert len(families) == 24
    assert sum(len(family.rows) for family in families) == 413


def test_every_row_that_a_test_names_exists_and_applies(request: pytest.FixtureRequest) -> None:
    # The session has the tests that this run has collected: all of them if the whole suite runs.
    join(read_table(), marks_of(request.session.items))


def test_a_row_has_its_family_its_behaviour_and_the_reason_why_it_cannot_apply(tmp_path: Path) -> None:
    (family,) = read_table(folder_of_rows(tmp_path / "rows", aa=FIRST_ROWS))
    assert (family.code, family.title) == ("AA", "Made up")
    first, _, third = family.rows
    assert (first.id, first.family, first.behaviour, first.not_applicable) == ("AA-01", "AA", "The first thing.", None)
    assert third.not_applicable == "There is no such thing here."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('title = "T"\n[rows]\nAA-1 = "x"', "'AA-1' is no id"),
        ('title = "T"\n[rows]\nAA-01x = "x"', "'AA-01x' is no id"),
        ('title = "T"\n[rows]\nBB-01 = "x"', "BB-01, expected AA-01"),
        ('title = "T"\n[rows]\nAA-01 = "x"\nAA-03 = "y"', "AA-03, expected AA-02"),
        ('title = "T"\n[rows]\nAA-01 = "x"\nAA-01 = "y"', "overwrite"),
        ('title = "T"\n[rows]\nAA-01 = " "', "AA-01 in rows says nothing"),
        ('title = "T"\n[rows]\nAA-01 = "x"\n[not_applicable]\nAA-02 = "y"', "AA-02 cannot apply but is no row"),
        ('title = "T"\n[rows]\nAA-01 = "x"\n[not_applicable]\nAA-01 = ""', "AA-01 in not_applicable says nothing"),
        ('title = "T"\n[rows]\nAA-01 = "x"\n[aside]\n', "has aside"),
        ('[rows]\nAA-01 = "x"', "no title"),
        ('title = "T"', "has no rows"),
    ],
)
def test_a_wrong_file_of_rows_is_refused_by_name(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(ContractError, match=words) as error:
        read_table(folder_of_rows(tmp_path / "rows", aa=content))
    assert "aa.toml" in str(error.value)


def test_the_command_succeeds_if_every_row_that_applies_is_shown(tmp_path: Path) -> None:
    done = command(tmp_path, [SHOWS_AA_01, SHOWS_THE_OTHERS])
    assert done.returncode == 0, done.stderr
    assert "shown by 2 tests: " in done.stdout
    assert "test_0.py::test_on_a_function[1]" in done.stdout
    assert "test_1.py::test_on_a_module_and_on_a_parameter[2]" in done.stdout
    assert "does not apply: There is no such thing here." in done.stdout
    assert done.stdout.splitlines()[-1] == "4 rows: 3 shown by a test, 1 do not apply, 0 shown by nothing"


def test_the_command_fails_and_lists_rows_that_no_test_shows(tmp_path: Path) -> None:
    expected_to_fail = SHOWS_THE_OTHERS + "\npytestmark = [pytestmark, pytest.mark.xfail]\n"
    done = command(tmp_path, [SHOWS_AA_01, expected_to_fail], "--missing")
    assert done.returncode == 1, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if "nothing shows it" in line] == ["AA-02", "BB-01"]
    assert done.stdout.splitlines()[-1] == "4 rows: 1 shown by a test, 1 do not apply, 2 shown by nothing"


def test_the_command_prints_the_given_families_as_one_json_object(tmp_path: Path) -> None:
    done = command(tmp_path, [SHOWS_AA_01], "aa", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert {row["id"]: row["state"] for row in report["rows"]} == {
        "AA-01": "shown",
        "AA-02": "missing",
        "AA-03": "not applicable",
    }
    assert report["counts"] == {"shown": 1, "not applicable": 1, "missing": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('"AA-09"', "names AA-09, which is no row of the contract"),
        ('"AA-01", "AA-03"', "names AA-03, which does not apply: There is no such thing here."),
        ("", "expected ids of rows"),
    ],
)
def test_the_command_refuses_a_test_that_names_an_invalid_row(tmp_path: Path, arguments: str, words: str) -> None:
    done = command(tmp_path, [NAMES.format(arguments)])
    assert done.returncode == 2
    assert "test_0.py::test_names_it" in done.stderr
    assert words in done.stderr


def test_the_command_refuses_tests_that_cannot_be_collected(tmp_path: Path) -> None:
    done = command(tmp_path, ["import no_such_module"])
    assert done.returncode == 2
    assert "no_such_module" in done.stderr
