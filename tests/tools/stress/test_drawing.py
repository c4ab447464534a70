"""Parts of a stress run that follow from its seed."""

from __future__ import annotations

from itertools import islice

from nnhal_tools.stress import draw_clients
from nnhal_tools.stress.actions import ACTIONS, SHARED_ACTIONS
from nnhal_tools.stress.drawing import draw_client
from nnhal_tools.stress.script import ENDINGS, SessionEnding


def test_a_client_follows_from_the_seed_and_its_number() -> None:
    drawn = list(islice(draw_clients(5), 8))
    assert [client.client for client in drawn] == list(range(8))
    assert draw_client(5, 6) == drawn[6]
    assert draw_client(6, 6).threads != drawn[6].threads
    assert len({client.seed for client in drawn}) == len({client.threads for client in drawn}) == 8


def test_all_actions_and_all_endings_are_drawn_and_a_session_ends_with_its_ending() -> None:
    drawn = list(islice(draw_clients(1), 60))
    seen = {act.action for client in drawn for acts in client.threads for act in acts}
    assert seen == {*ACTIONS, *SHARED_ACTIONS, *ENDINGS}
    assert {client.ending for client in drawn} == set(SessionEnding)
    for client in drawn:
        assert not any(act.action in ENDINGS for acts in client.threads for act in acts[:-1])
