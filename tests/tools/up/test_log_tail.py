from __future__ import annotations

import pytest

from nnhal_tools.up.log_tail import LogTail

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
