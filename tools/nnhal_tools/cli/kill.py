"""``nnhal kill``."""

from __future__ import annotations

import signal as signals
from typing import Annotated

import typer

from nnhal_tools.cli.completion import complete_process
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, say
from nnhal_tools.operate.operator_session import split_id


def kill(
    name: Annotated[
        str | None, typer.Argument(help="A process, by its name in 'nnhal ps'.", autocompletion=complete_process)
    ] = None,
    signal: Annotated[str, typer.Option(help="The signal, by name or number.")] = "SIGKILL",
    session: Annotated[
        str, typer.Option(metavar="PROCESS/ID", help="End a session: its link closes, what it owns is released.")
    ] = "",
    execution: Annotated[str, typer.Option(metavar="PROCESS/ID", help="Cancel an execution.")] = "",
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Kill a process, end a session, or cancel an execution. A process that is killed is started again."""
    if [bool(name), bool(session), bool(execution)].count(True) != 1:
        raise ValueError("expected one of NAME, --session PROCESS/ID and --execution PROCESS/ID")
    with operator_at(directory, admin_key) as operator:
        if session:
            process, identity = split_id(session, "session")
            with operator.admin(operator.find(process)) as admin:
                admin.end_session(identity)
            say(f"{session} has ended", as_json, session=session)
        elif execution:
            process, identity = split_id(execution, "execution")
            with operator.admin(operator.find(process)) as admin:
                ended = admin.cancel_execution(identity)
            how = "is cancelled" if ended else "runs, and ends as soon as it can"
            say(f"{execution} {how}", as_json, execution=execution, ended=ended)
        elif name is not None:
            number = _number(signal)
            if not operator.is_supervised:
                raise operator.refuse_foreign(name, "killed")
            pid = operator.supervisor.kill(name, number)
            say(f"{name}: process {pid} was sent {signal}", as_json, name=name, pid=pid, signal=number)


def _number(text: str) -> int:
    """A signal's number. Raises ValueError."""
    if text.isdigit():
        return int(text)
    name = text.upper()
    try:
        return signals.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except KeyError:
        raise ValueError(f"signal {text!r}, expected a name such as SIGTERM, or a number") from None
