"""Files of stress scripts: JSON, one action a line."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from nnhal.given_files import read_given_file
from nnhal_tools.stress.actions import ACTIONS, SHARED_ACTIONS
from nnhal_tools.stress.script import ENDINGS, Act, ClientScript, StressScript

VERSION = 1
_MOST_BYTES = 256 << 20
_ACTIONS = (*ACTIONS, *SHARED_ACTIONS, *ENDINGS)


def _known(action: str) -> str:
    if action not in _ACTIONS:
        raise ValueError(f"got {action!r:.80}, expected an action: {', '.join(_ACTIONS)}")
    return action


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _ActFields(_Part):
    action: Annotated[str, AfterValidator(_known)]
    seed: int


class _ClientFields(_Part):
    client: Annotated[int, Field(ge=0)]
    seed: int
    threads: list[list[_ActFields]]


class _ScriptFields(_Part):
    version: Literal[1]
    sessions: Annotated[int, Field(ge=1)]
    clients: Annotated[list[_ClientFields], Field(min_length=1)]


def write_script(path: Path, script: StressScript) -> None:
    """Write a script. Raises OSError."""
    clients = []
    for client in script.clients:
        threads = (",\n".join(f"   {json.dumps(asdict(act))}" for act in acts) for acts in client.threads)
        listed = ",\n".join(f"  [\n{acts}\n  ]" if acts else "  []" for acts in threads)
        clients.append(f' {{"client": {client.client}, "seed": {client.seed}, "threads": [\n{listed}\n ]}}')
    listed = ",\n".join(clients)
    path.write_text(f'{{"version": {VERSION}, "sessions": {script.sessions}, "clients": [\n{listed}\n]}}\n')


def read_script(path: Path) -> StressScript:
    """Read a script. Raises OSError, or ValueError if the file holds none, with what is wrong and where."""
    try:
        fields = _ScriptFields.model_validate_json(read_given_file(path, _MOST_BYTES, "a script"))
    except ValidationError as error:
        raise ValueError(f"{path}: {_in_words(error)}") from None
    twice = [number for number, count in Counter(client.client for client in fields.clients).items() if count > 1]
    if twice:
        raise ValueError(f"{path}: got client {twice[0]} more than once, expected distinct numbers")
    return StressScript(
        fields.sessions,
        tuple(
            ClientScript(
                client.client,
                client.seed,
                tuple(tuple(Act(act.action, act.seed) for act in acts) for acts in client.threads),
            )
            for client in fields.clients
        ),
    )


def _in_words(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    problem = error.errors(include_url=False)[0]
    match problem["type"]:
        case "json_invalid":
            return f"expected a script in JSON, as --save-script writes it: {problem['ctx']['error']}"
        case "value_error":
            message = problem["msg"].removeprefix("Value error, ")
        case "extra_forbidden":
            message = "is unknown; a script has no such field"
        case "missing":
            message = "is missing"
        case _:
            message = f"got {problem['input']!r:.80}, expected: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
    where = _place(problem["loc"])
    return f"{where}: {message}" if where else message


def _place(steps: tuple[int | str, ...]) -> str:
    """Name the place of a field in reports: ``entry 3 of clients, thread 0, action 17, seed``."""
    numbers = [step for step in steps if isinstance(step, int)]
    words = ["entry {} of clients", "thread {}", "action {}"]
    numbers[:1] = [number + 1 for number in numbers[:1]]
    places = [word.format(number) for word, number in zip(words, numbers, strict=False)]
    last = steps[-1:]
    return ", ".join([*places, *(str(step) for step in last if isinstance(step, str))])
