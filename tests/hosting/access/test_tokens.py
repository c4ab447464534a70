"""Files of tokens: what they may have, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_hosting.access import AccessRole, Identity, TokenFileError, read_tokens
from tests.support.tokens import token_file


def test_each_token_has_its_name_and_role(tmp_path: Path) -> None:
    tokens = read_tokens(token_file(tmp_path, eye="view", ci="infer", boss="admin"))
    assert tokens.identity("Bearer eye-token") == Identity("eye", AccessRole.VIEW)
    assert tokens.identity("Bearer ci-token") == Identity("ci", AccessRole.INFER)
    assert tokens.identity("Bearer boss-token") == Identity("boss", AccessRole.ADMIN)
    assert tokens.identity("Bearer other") is None


def test_a_higher_role_includes_the_lower_ones() -> None:
    assert AccessRole.NOBODY < AccessRole.VIEW < AccessRole.INFER < AccessRole.ADMIN


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "token"),
        ("[[token]]\nname = 'x'\nrole = 'god'\nsha256 = '" + "0" * 64 + "'", "token.0.role"),
        ("[[token]]\nname = 'x'\nrole = 'infer'\nsha256 = 'secret'", "token.0.sha256"),
        ("[[token]", "line 1"),
    ],
)
def test_a_token_file_that_is_wrong_says_where(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(content)
    with pytest.raises(TokenFileError, match=problem):
        read_tokens(path)


def test_a_token_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        read_tokens(tmp_path / "none")
