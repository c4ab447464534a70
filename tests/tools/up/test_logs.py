from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nnhal_hosting.logs import LEVELS
from nnhal_tools.up.logs import LogTail, ParsedLine, parse_line

WRITER = """
import sys
from nnhal_hosting.logs import configure_logs, get_logger
configure_logs("cpu_ref", "debug", sys.argv[1] == "json")
log = get_logger("x")
for level in ("debug", "info", "warning", "error", "critical"):
    getattr(log, level)("a model", level_of=level, path="a b", request_id="r 1", text="request_id=other")
log.info("short")
"""
LINE = "2026-01-02T03:04:05Z [warning  ] slow                           process=a request_id=7\n"


def test_lines_are_numbered_over_all_processes() -> None:
    tail = LogTail()
    tail.add("a", LINE)
    tail.add("b", "plain\n")
    tail.add("a", "again\n")
    answer = tail.tail("", 0, 0)
    assert [(line.number, line.process, line.level, line.text) for line in answer.lines] == [
        (1, "a", "warning", "slow request_id=7"),
        (2, "b", "", "plain"),
        (3, "a", "", "again"),
    ]
    assert answer.lines[0].request_id == "7"
    assert answer.lines[0].at_ns == 1_767_323_045_000_000_000
    assert answer.lines[1].at_ns > answer.lines[0].at_ns
    assert [line.number for line in tail.tail("a", 1, 0).lines] == [3]
    assert tail.tail("b", 2, 0).last == 3


def test_the_newest_lines_are_returned_and_kept() -> None:
    tail = LogTail(kept=3)
    for number in range(10):
        tail.add("a", f"{number}\n")
    assert [line.text for line in tail.tail("", 0, 0).lines] == ["7", "8", "9"]
    assert [line.text for line in tail.tail("", 0, 2).lines] == ["8", "9"]


def test_a_very_long_line_is_cut() -> None:
    tail = LogTail()
    tail.add("a", "x" * 60_000)
    assert tail.tail("", 0, 0).lines[0].text == "x" * 4096 + "…"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (r'{"timestamp": "2026-01-02T03:04:05Z", "level": "info", "event": "half \ud800"}', "half ?"),
        (r"2026-01-02T03:04:05Z [info     ] half  request_id='\ud800'", r"half request_id='\ud800'"),
        ("9999-01-02T03:04:05Z [info     ] late", "9999-01-02T03:04:05Z [info     ] late"),
    ],
)
def test_a_line_that_no_message_could_carry_is_kept_as_far_as_one_can(line: str, text: str) -> None:
    tail = LogTail()
    tail.add("a", line)
    assert [each.text for each in tail.tail("", 0, 0).lines] == [text]


def written(form: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", WRITER, form], capture_output=True, text=True, check=True)
    return done.stderr.splitlines(keepends=True)


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_are_read_as_the_processes_write_them(form: str) -> None:
    *lines, short = map(parse_line, written(form))
    assert [line.level for line in lines] == list(LEVELS)
    for line in lines:
        assert line.request_id == "r 1"
        assert line.text.startswith("a model level_of=")
        assert "cpu_ref" not in line.text
        assert line.at_ns is not None
    assert (short.level, short.text, short.request_id) == ("info", "short", "")


def test_an_instant_keeps_its_microseconds() -> None:
    line = parse_line("2026-01-02T03:04:05.678901Z [info     ] serving                        process=framework\n")
    assert line == ParsedLine(1_767_323_045_678_901_000, "info", "serving", "")
    assert parse_line("2026-01-02T03:04:05Z [info     ] serving").at_ns == 1_767_323_045_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "http: 127.0.0.1:8000",
        "yesterday [info     ] serving",
        "2026-01-02T03:04:05Z [loud     ] serving",
        "{",
        "{}",
        "[1]",
        json.dumps({"timestamp": "2026-01-02T03:04:05Z", "level": "info"}),
        json.dumps({"timestamp": 7, "level": "info", "event": "x"}),
        json.dumps({"timestamp": "2026-01-02T03:04:05Z", "level": ["info"], "event": "x"}),
        "{" * 100_000,
        '{"a":' * 100_000,
        "",
    ],
)
def test_what_is_no_line_of_a_log_is_text(text: str) -> None:
    assert parse_line(text + "\n") == ParsedLine(None, "", text, "")
