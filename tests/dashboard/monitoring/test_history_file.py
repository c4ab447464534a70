"""The file of a history: what was known is known again, and a file that is none costs a sentence."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from nnhal.v1 import supervisor_pb2
from nnhal_dashboard.monitoring import history_file
from nnhal_dashboard.monitoring.history_file import MOST_BYTES, HistoryFile, KeptHistory
from nnhal_dashboard.monitoring.ring import MOST_SERIES, Ring, RingSample

BEGIN = 1_700_000_000.0
OCCASIONS = {"requests/": ()}


def filled(series: int = 3, seconds: int = 1500) -> Ring:
    ring = Ring(OCCASIONS)
    for second in range(seconds):
        values = {f"device.busy/{number}": float(second % 7) for number in range(series)}
        ring.add(RingSample(BEGIN + second, 1.0, values, [0, 2]))
    return ring


def event(text: str = "killed by SIGKILL") -> supervisor_pb2.ProcessEvent:
    return supervisor_pb2.ProcessEvent(at_ns=10**18, subject="npu", kind="died", text=text)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    ring, path = filled(), tmp_path / "history"
    HistoryFile(path).write(KeptHistory(ring, [event()]))
    kept = HistoryFile(path).read(OCCASIONS)
    assert kept is not None
    assert list(kept.events) == [event()]
    for step, seconds in ((1, 900), (10, 1500), (120, 1440)):
        for one, other in zip(
            ring.stretches("device.busy/1", BEGIN + 1500, seconds, step),
            kept.ring.stretches("device.busy/1", BEGIN + 1500, seconds, step),
            strict=True,
        ):
            assert np.array_equal(one, other, equal_nan=True)
        assert np.array_equal(
            ring.counts(BEGIN + 1500, seconds, step)[1], kept.ring.counts(BEGIN + 1500, seconds, step)[1]
        )
    kept.ring.add(RingSample(BEGIN + 1600, 1.0, {"device.busy/1": 3.0}))
    assert kept.ring.stretches("device.busy/1", BEGIN + 1600, 2, 1).mean[-1] == 3


def test_only_its_owner_may_read_it_and_no_other_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "history"
    before = os.umask(0)
    try:
        HistoryFile(path).write(KeptHistory(filled(1, 2), ()))
        HistoryFile(path).write(KeptHistory(filled(1, 2), ()))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["history"]


@pytest.mark.slow
def test_the_longest_history_fits_the_file(tmp_path: Path) -> None:
    ring = filled(1, 1)
    for number in range(MOST_SERIES):
        ring.add(RingSample(BEGIN + 1 + number, 1.0, {f"model.requests/{'a long name of a model' * 3} {number}": 1.0}))
    HistoryFile(tmp_path / "history").write(KeptHistory(ring, [event("x" * 10_000)] * 2000))
    assert (tmp_path / "history").stat().st_size <= MOST_BYTES
    assert HistoryFile(tmp_path / "history").read(OCCASIONS) is not None


def test_there_may_be_no_file_yet(tmp_path: Path) -> None:
    with capture_logs() as lines:
        assert HistoryFile(tmp_path / "history").read(OCCASIONS) is None
    assert not lines


def written(tmp_path: Path) -> Path:
    path = tmp_path / "history"
    HistoryFile(path).write(KeptHistory(filled(2, 20), [event()]))
    return path


def assert_begun_anew(path: Path, why: str) -> None:
    """The file is not used, which one line says; and it is replaced."""
    with capture_logs() as lines:
        assert HistoryFile(path).read(OCCASIONS) is None
    (line,) = [each for each in lines if each["log_level"] == "warning"]
    assert line["event"] == f"the history in {path} is begun anew: {why}"
    HistoryFile(path).write(KeptHistory(filled(1, 2), ()))
    assert HistoryFile(path).read(OCCASIONS) is not None


@pytest.mark.parametrize("length", [0, 1, 1000, -1])
def test_a_file_that_was_cut_off_is_begun_anew(tmp_path: Path, length: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert_begun_anew(path, "it is damaged")


def test_a_file_with_another_byte_is_begun_anew(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    assert_begun_anew(path, "it is damaged")


def test_a_file_of_another_form_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(history_file, "FORM", 0)
        path = written(tmp_path)
    assert_begun_anew(path, "it has form 0, expected 1")


def test_a_file_that_is_too_long_is_begun_anew(tmp_path: Path) -> None:
    path = written(tmp_path)
    os.truncate(path, MOST_BYTES + 1)
    assert_begun_anew(path, f"it: got {MOST_BYTES + 1} bytes, expected a history of at most {MOST_BYTES}")


def test_a_file_of_a_time_to_come_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "history"
    ring = Ring()
    ring.add(RingSample(time.time() + 86400, 1.0, {}))
    HistoryFile(path).write(KeptHistory(ring, ()))
    assert_begun_anew(path, "it is of a time to come: the clock was set back")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(path)
    with capture_logs() as lines:
        assert HistoryFile(link).read(OCCASIONS) is None
    assert len(lines) == 1


def test_a_folder_that_is_not_there_is_told_once(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "none" / "history")
    with capture_logs() as lines:
        for _ in range(3):
            file.write(KeptHistory(filled(1, 2), ()))
    assert [line["event"] for line in lines] == [
        f"the history cannot be kept in {tmp_path / 'none' / 'history'}: No such file or directory"
    ]
