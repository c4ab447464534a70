"""Folders of sockets: made for their user alone, and refused if another user could change or replace them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint, default_directory
from nnhal.private_folders import make_private_folder, require_trusted_file, require_trusted_folder

OTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_every_folder_that_is_made_is_for_its_user_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_private_folder(tmp_path / "testbed" / "device")
    finally:
        os.umask(before)
    for folder in (tmp_path / "testbed", tmp_path / "testbed" / "device"):
        assert folder.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path, mode: int) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(mode)
    make_private_folder(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o7777 == mode


def test_a_folder_that_others_may_write_to_is_refused_even_below_and_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open")
    for path in ("open", "open/device", "link", "link/device"):
        with pytest.raises(ValueError, match=rf"^{tmp_path}/open: mode 0777 lets others write there, expected"):
            make_private_folder(tmp_path / path)
    assert list((tmp_path / "open").iterdir()) == []


def test_a_folder_may_be_in_a_sticky_one_but_not_be_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    make_private_folder(tmp_path / "shared" / "device")
    with pytest.raises(ValueError, match="mode 1777 lets others write"):
        make_private_folder(tmp_path / "shared")


@needs_root
def test_a_folder_of_another_user_is_refused_wherever_it_is_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "shared" / "theirs").mkdir()
    os.chown(tmp_path / "shared" / "theirs", OTHER_USER, OTHER_USER)
    for path in ("theirs", "theirs/device"):
        with pytest.raises(ValueError, match=rf"theirs: a folder of user {OTHER_USER}, expected one of user 0"):
            make_private_folder(tmp_path / "shared" / path)
        with pytest.raises((ValueError, FileNotFoundError)):
            require_trusted_folder(tmp_path / "shared" / path, {0})
    require_trusted_folder(tmp_path / "shared" / "theirs", {OTHER_USER})


@needs_root
def test_a_group_may_write_only_if_it_is_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    (tmp_path / "group").chmod(0o770)
    os.chown(tmp_path / "group", 0, OTHER_USER)
    with pytest.raises(ValueError, match="mode 0770 lets others write"):
        make_private_folder(tmp_path / "group")


def test_a_file_is_trusted_if_its_user_alone_may_change_or_replace_it(tmp_path: Path) -> None:
    for name in ("own", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch(0o644)
    (tmp_path / "link").symlink_to("open/file")
    require_trusted_file(tmp_path / "link", ())
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/open: mode 0777 lets others write"):
        require_trusted_file(tmp_path / "link", ())
    (tmp_path / "own" / "file").chmod(0o666)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/own/file: mode 0666 lets others write"):
        require_trusted_file(tmp_path / "own" / "file", ())


@needs_root
def test_a_file_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    os.chown(tmp_path / "file", OTHER_USER, OTHER_USER)
    with pytest.raises(ValueError, match=rf"file: a file of user {OTHER_USER}, expected one of user 0"):
        require_trusted_file(tmp_path / "file", ())


@needs_root
def test_what_cannot_be_made_is_told_whole_with_the_option_that_names_another(short_path: Path) -> None:
    short_path.chmod(0o755)
    os.seteuid(OTHER_USER)
    try:
        with pytest.raises(PermissionError) as raised:
            make_private_folder(short_path / "testbed" / "device")
        with pytest.raises(OSError, match=r"; --directory names another") as told:
            Endpoint(short_path / "testbed" / "device").create("--directory")
    finally:
        os.seteuid(0)
    assert raised.value.filename == f"{short_path}/testbed"
    assert str(told.value).startswith(f"{short_path}/testbed: Permission denied; ")


@needs_root
def test_a_user_has_a_directory_of_his_own(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (short_path / "own").mkdir()
    os.chown(short_path / "own", OTHER_USER, OTHER_USER)
    short_path.chmod(0o755)
    found = {}
    for runtime in ("own", ".", "missing"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path / runtime))
        os.seteuid(OTHER_USER)
        try:
            found[runtime] = default_directory()
        finally:
            os.seteuid(0)
        assert default_directory() == Path("/run/nnhal")
    alone = Path(f"/tmp/nnhal-{OTHER_USER}")
    assert found == {"own": short_path / "own" / "nnhal", ".": alone, "missing": alone}  # "." is root's, as after su
