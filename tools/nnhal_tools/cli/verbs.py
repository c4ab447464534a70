"""Commands of ``nnhal ctl`` from the verbs of the table of resources: arguments, options and help are the table's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, getdoc
from typing import Annotated, Any, get_args

import typer

from nnhal_pages.command_parameters import taking
from nnhal_pages.operating.table import Done, Verb, VerbOption
from nnhal_tools.cli.completion import complete_driver, complete_model, complete_process
from nnhal_tools.cli.operating import at_a_testbed, say
from nnhal_tools.operate.operator_session import OperatorSession

_COMPLETIONS: Mapping[str, Callable[..., list[str]]] = {
    "processes": complete_process,
    "models": complete_model,
    "drivers": complete_driver,
}


def tell(operator: OperatorSession, done: Done, as_json: bool) -> None:
    """Say what came of a verb, and have it kept as an event. Ends with status 1 if something is left to be done."""
    done.noted(operator)
    say(done.sentence, as_json, **done.values)
    if not done.is_whole:
        raise typer.Exit(1)


def command_of(verb: Verb) -> Callable[..., None]:
    """Return the command of a verb: required parameters are arguments, the others options."""

    def run(operator: OperatorSession, as_json: bool, **given: Any) -> None:
        tell(operator, verb.act(operator, **given), as_json)

    lead = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("operator", "as_json")]
    command = at_a_testbed(taking([*lead, *map(_asked, verb.parameters)], run))
    command.__doc__ = getdoc(verb.act)
    return command


def _asked(parameter: Parameter) -> Parameter:
    kind, given = get_args(parameter.annotation)
    assert isinstance(given, VerbOption), parameter
    if parameter.default is Parameter.empty:
        known: Any = typer.Argument(help=given.about, autocompletion=_COMPLETIONS.get(given.names))
    else:
        known = typer.Option(f"--{parameter.name}", help=given.about, min=given.least, max=given.most)
    return parameter.replace(annotation=Annotated[kind, known])
