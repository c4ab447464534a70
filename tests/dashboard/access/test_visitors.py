"""Browsers by their cookie."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal_dashboard.access import visitors as module
from nnhal_dashboard.access.visitors import Visitors
from nnhal_hosting.access import read_tokens
from tests.support.tokens import token_file


@pytest.fixture
def visitors(tmp_path: Path) -> Visitors:
    return Visitors(read_tokens(token_file(tmp_path, eye="view")))


def test_other_users_in_large_numbers_sign_nobody_out(visitors: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 8)
    known = visitors.sign_in(visitors.of(""), "eye-token")
    assert known is not None
    for _ in range(20):
        visitors.of("")
    assert visitors.of(known.cookie) is known


def test_who_follows_live_parts_stays_until_signed_out(visitors: Visitors) -> None:
    known = visitors.sign_in(visitors.of(""), "eye-token")
    assert known is not None
    assert visitors.stays(known)
    visitors.sign_out(known)
    assert not visitors.stays(known)


def test_following_is_use_only_if_nobody_must_sign_in(visitors: Visitors) -> None:
    known = visitors.sign_in(visitors.of(""), "eye-token")
    assert known is not None
    known.seen -= module.IDLE_SECONDS / 2
    before = known.seen
    assert visitors.stays(known)
    assert known.seen == before
    known.seen -= module.IDLE_SECONDS
    assert not visitors.stays(known)

    everybody = Visitors()
    visitor = everybody.of("")
    visitor.seen -= module.IDLE_SECONDS / 2
    before = visitor.seen
    assert everybody.stays(visitor)
    assert visitor.seen > before
