"""Scripts that a user keeps, edits and runs again."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from nnhal_tools.stress import StressScript, draw_clients
from nnhal_tools.stress.script import decode_client
from nnhal_tools.stress.script_file import read_script, write_script

ACT = {"action": "execute", "seed": 1}
CLIENT = {"client": 0, "seed": 1, "threads": [[ACT]]}
SCRIPT = {"version": 1, "sessions": 2, "clients": [CLIENT]}


def test_what_is_written_is_read_again_and_has_an_action_a_line(tmp_path: Path) -> None:
    clients = list(islice(draw_clients(3), 4))
    script = StressScript(2, (clients[0].cut([0] * len(clients[0].threads)), *clients[1:]))
    write_script(tmp_path / "script", script)
    assert read_script(tmp_path / "script") == script
    assert (tmp_path / "script").read_text().count('{"action": ') == script.actions
    assert all('{"action": ' not in line[5:] for line in (tmp_path / "script").read_text().splitlines())


def test_a_client_is_handed_to_its_process_as_it_is() -> None:
    for client in islice(draw_clients(3), 3):
        assert decode_client(client.encode()) == client


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({**SCRIPT, "sessions": 0}, "sessions: got 0, expected: input should be greater than or equal to 1"),
        ({**SCRIPT, "version": 2}, "version: got 2, expected: input should be 1"),
        ({**SCRIPT, "clients": []}, "clients: got [], expected: "),
        ({**SCRIPT, "clients": [CLIENT, CLIENT]}, "got client 0 more than once, expected distinct numbers"),
        ({**SCRIPT, "speed": 1}, "speed: is unknown; a script has no such field"),
        ({"version": 1, "sessions": 2}, "clients: is missing"),
        (
            {**SCRIPT, "clients": [CLIENT, {**CLIENT, "threads": [[ACT], [ACT, {**ACT, "action": "lunch"}]]}]},
            "entry 2 of clients, thread 1, action 1, action: got 'lunch', expected an action: getters, usage, ",
        ),
        (
            {**SCRIPT, "clients": [{**CLIENT, "threads": [[{**ACT, "seed": "x"}]]}]},
            "entry 1 of clients, thread 0, action 0, seed: got 'x', expected: input should be a valid integer",
        ),
        ([], "got [], expected: "),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_words(given: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(given))
    with pytest.raises(ValueError) as refused:
        read_script(path)
    assert str(refused.value).startswith(f"{path}: {told}")
    assert "_ScriptFields" not in str(refused.value)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"\xff\x00 nothing")
    with pytest.raises(ValueError, match="expected a script in JSON, as --save-script writes it"):
        read_script(path)
