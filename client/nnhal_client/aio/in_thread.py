"""Methods for asyncio that are blocking ones in a thread, with the same arguments and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")
B_co = TypeVar("B_co", covariant=True)


class Wrapping(Protocol[B_co]):
    """An object for asyncio around a blocking one."""

    @property
    def blocking(self) -> B_co:
        """The blocking object."""
        ...


def in_thread(
    method: Callable[Concatenate[B, P], R],
) -> Callable[[Callable[[Any, R], T]], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]]:
    """Make a method for asyncio of a blocking object's method, with the signature and docstring of that.

    The function that is decorated turns the blocking answer into its own.
    """

    def derive(answer_of: Callable[[Any, R], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
        @wraps(method)
        async def call(self: Wrapping[B], /, *args: P.args, **kwargs: P.kwargs) -> T:
            return answer_of(self, await asyncio.to_thread(method, self.blocking, *args, **kwargs))

        return call

    return derive
