"""The environment of nodes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from nnhal_ray.nodes import environment, new_token


def test_a_node_listens_at_the_loopback_and_asks_for_the_token(tmp_path: Path) -> None:
    found = environment(tmp_path, tmp_path / "token")
    assert found["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert (found["RAY_AUTH_MODE"], found["RAY_AUTH_TOKEN_PATH"]) == ("token", str(tmp_path / "token"))
    assert environment(tmp_path, tmp_path / "token", "10.0.0.1")["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"


def test_what_an_operator_has_set_stays_but_for_who_may_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_SERVE_HAPROXY_TUNE_BUFSIZE", "16384")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    found = environment(tmp_path, tmp_path / "token")
    assert (found["RAY_SERVE_HAPROXY_TUNE_BUFSIZE"], found["RAY_AUTH_MODE"]) == ("16384", "token")


def test_a_token_is_the_owner_s_alone_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "token"
    new_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(path.read_text()) == 64
    with pytest.raises(FileExistsError):
        new_token(path)
