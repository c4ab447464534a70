"""The last lines of a log, for operators."""

from __future__ import annotations

import json
import subprocess
import sys

from nnhal_hosting.kept_lines import KeptLines


def test_the_newest_lines_are_kept_and_numbered() -> None:
    lines = KeptLines(most=3)
    assert lines.after(0, 10) == ([], 0)
    for number in range(1, 6):
        lines.add(number, "info", f"line {number}")
    found, last = lines.after(0, 10)
    assert [(line.number, line.at_ns, line.text) for line in found] == [(n, n, f"line {n}") for n in (3, 4, 5)]
    assert last == 5
    assert [line.number for line in lines.after(4, 10)[0]] == [5]
    assert [line.number for line in lines.after(0, 2)[0]] == [4, 5]
    assert lines.after(5, 2) == ([], 5)


def test_a_very_long_line_is_cut() -> None:
    lines = KeptLines()
    lines.add(1, "info", "x" * 100_000)
    ((line,), _) = lines.after(0, 1)
    assert line.text == "x" * 16_384 + "…"


PROGRAM = """
import json
from dataclasses import asdict
from nnhal_hosting.kept_lines import KEPT
from nnhal_hosting.logs import configure_logs, get_logger
configure_logs("cpu_ref", "info", {as_json})
log = get_logger("a module")
log.debug("hidden")
log.info("shown", number=7, name="two words", request_id="r\\n1")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
print(json.dumps([asdict(line) for line in KEPT.after(0, 10)[0]]))
"""


def kept(as_json: bool) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(as_json=as_json)], capture_output=True, text=True, check=True
    )
    lines: list[dict[str, object]] = json.loads(done.stdout)
    return lines


def test_lines_that_are_shown_are_kept_in_one_form_whatever_the_format() -> None:
    for as_json in (False, True):
        shown, failed = kept(as_json)
        assert (shown["number"], shown["level"], shown["request_id"]) == (1, "info", "r\n1")
        assert shown["text"] == "shown number=7 name='two words' request_id='r\\n1'"
        assert (failed["number"], failed["level"], failed["request_id"]) == (2, "error", "")
        text = str(failed["text"])
        assert text.startswith("failed\nTraceback") and text.endswith("ZeroDivisionError: division by zero")


def test_a_line_about_a_file_whose_name_is_no_text_can_be_sent() -> None:
    kept = KeptLines()
    kept.add(0, "info", "no model in \udcff", request_id="\ud800")
    (line,), _ = kept.after(0, 1)
    assert (line.text, line.request_id) == ("no model in ?", "?")
