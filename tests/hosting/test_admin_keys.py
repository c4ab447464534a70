"""Admin keys, and the files that hold them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal_hosting.admin_keys import checked_admin_key, is_admin_key, new_admin_key, read_admin_key

KEY = "k" * 32
OTHER_USER = 65534


def key_file(folder: Path, content: str = KEY, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_is_read_without_the_white_space_around_it(tmp_path: Path, mode: int) -> None:
    assert read_admin_key(key_file(tmp_path, f"  {KEY}\n", mode)) == KEY


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o700, 0o606])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ValueError, match=rf"key: mode {mode:04o}, expected 0600 or 0400"):
        read_admin_key(key_file(tmp_path, mode=mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    os.chown(path, OTHER_USER, -1)
    with pytest.raises(ValueError, match=rf"a file of user {OTHER_USER}, expected one of the process's user, 0"):
        read_admin_key(path)


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="pipe: got a pipe, expected a regular file: an admin key"):
        read_admin_key(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_admin_key(tmp_path / "none")


@pytest.mark.parametrize("content", ["", "short", "two words that are long enough", "é" * 20, "k" * 257, "k" * 5000])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="expected 16 to 256 printable") as refusal:
        read_admin_key(key_file(tmp_path, content))
    assert not content or content not in str(refusal.value)


def test_new_keys_differ_and_are_valid() -> None:
    first, second = new_admin_key(), new_admin_key()
    assert first != second
    assert checked_admin_key(first) == first


def test_a_process_may_have_several_keys_or_none() -> None:
    assert is_admin_key(KEY, ["a" * 32, KEY])
    assert not is_admin_key(KEY, ["a" * 32])
    assert not is_admin_key("", [])
    assert not is_admin_key("é", [KEY])
