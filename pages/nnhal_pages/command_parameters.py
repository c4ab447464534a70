"""Commands whose options are not those that their function lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature


def taking(parameters: Iterable[Parameter], run: Callable[..., None]) -> Callable[..., None]:
    """Return ``run``, which takes keywords only, with parameters for typer to make arguments and options of."""
    shown = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined] # typer reads it
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run
