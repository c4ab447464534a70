"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal.whole_files import write_whole


def test_a_file_is_written_for_its_user_only_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_whole(path, b"first")
    write_whole(path, b"second", writer="me")
    assert path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_replaced_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.mkdir()
    for writer in ("", "me"):
        with pytest.raises(OSError, match="kept"):
            write_whole(path, b"text", writer=writer)
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_writes_over_the_draft_that_it_has_left(tmp_path: Path) -> None:
    draft = tmp_path / ".kept.me"
    draft.symlink_to(tmp_path / "elsewhere")  # nor is a link followed
    write_whole(tmp_path / "kept", b"text", writer="me")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
