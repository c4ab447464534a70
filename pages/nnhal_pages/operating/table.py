"""What one table says of each resource: how it is asked for, its columns, and its verbs with who may do them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import Parameter, getdoc, signature
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from nnhal.errors import NnhalError
from nnhal.near_names import there_are
from nnhal.v1.supervisor_pb2 import ProcessEvent
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, Snapshot
from nnhal_pages.units import duration, lasting, size


class OperatedSystem(Protocol):
    """A testbed, as commands, pages and the API reach it."""

    contacts: Contacts

    def look(self, details: Detail = NO_DETAIL) -> Snapshot:
        """Return what is known of all processes, with ``details``. Raises OperatorError if there are none."""
        ...


def clock(at_ns: int) -> str:
    """The time of day, with milliseconds, of an instant in nanoseconds since the epoch."""
    return datetime.fromtimestamp(at_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]


def read_instant(name: str, text: str) -> int:
    """Read an instant, which is in UTC if it names no zone, as nanoseconds since the epoch; 0 for an empty text.

    Raises ValueError; ``name`` is the option that has it.
    """
    if not text:
        return 0
    try:
        found = datetime.fromisoformat(text)
        return round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1e9)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is {text[:30]!r}, expected an instant as 2026-11-27T14:03:00Z") from None


def since(at_ns: int) -> str:
    """Return how long ago an instant of CLOCK_BOOTTIME was; empty for 0."""
    return lasting(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - at_ns) if at_ns else ""


UNITS: Mapping[str, Callable[[Any], str]] = {
    "": str,
    "B": size,
    "B/s": lambda rate: f"{size(rate)}/s",
    "1/s": "{:.1f}".format,
    "%": "{:.0%}".format,
    "ns": duration,
    "ns, waited": lasting,
    "ns since boot": since,
    "ns since the epoch": clock,
}
"""How a cell of each unit is written for people."""


@dataclass(frozen=True, slots=True)
class ResourceColumn:
    """A fact of each thing of a kind."""

    head: str
    value: Callable[..., Any]
    """Takes what ``Resource.items`` yields. None if it is not known."""
    unit: str = ""
    """One of UNITS."""
    unknown: str = ""
    """In place of a value that is not known."""

    def written(self, *item: Any) -> str:
        """Return the fact of one, for people."""
        value = self.value(*item)
        if value is None:
            return self.unknown
        return ", ".join(value) if isinstance(value, list) else UNITS[self.unit](value)


@dataclass(frozen=True, slots=True)
class VerbOption:
    """What a parameter of a verb is, for help and for schemas."""

    about: str
    least: float | None = None
    most: float | None = None
    names: str = ""
    """The resource of which it names one; empty if it names none."""


class VerbChange(NamedTuple):
    """What a verb has changed."""

    subject: str
    """The process or the model."""
    before: str = ""
    """What it was before, in plain words."""
    undo: str = ""
    """What undoes it, as ``ProcessEvent.undo`` has it."""


class Done(NamedTuple):
    """What came of a verb."""

    sentence: str
    values: Mapping[str, Any] = {}
    is_whole: bool = True
    """False if something is left to be done."""
    change: VerbChange | None = None
    """None if it has changed nothing."""

    def noted(self, at: OperatedSystem, who: str = "") -> Done:
        """Have a change be kept as an event with who made it, and return the same."""
        if self.change is not None:
            event = ProcessEvent(text=self.sentence, who=who, **self.change._asdict())
            with suppress(NnhalError):  # of another version, or what keeps events was what has been stopped
                at.contacts.note_change(event)
        return self


def parameters_of(act: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a verb or a search, after the testbed."""
    return list(signature(act, eval_str=True).parameters.values())[1:]


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that operators have done with a thing of a kind, by ``act(at, name, …)``.

    The docstring of ``act`` says what it does, the annotations of its parameters what they are (see VerbOption). It
    raises NnhalError, LookupError or ValueError.
    """

    name: str
    act: Callable[..., Done]
    role: str = "admin"
    """The role of those who may: ``view``, ``infer`` or ``admin``."""
    names_one: bool = True
    """False if it is about none of those that there are."""

    @property
    def parameters(self) -> list[Parameter]:
        """Return its parameters, after the testbed."""
        return parameters_of(self.act)

    @property
    def told(self) -> list[Parameter]:
        """Return its parameters without the name of its subject."""
        return self.parameters[1:] if self.names_one else self.parameters

    @property
    def about(self) -> str:
        """Return what it does, in a sentence or two."""
        return (getdoc(self.act) or "").partition("\n\n")[0].replace("\n", " ")


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of things. One of them is a tuple, which columns and values are functions of."""

    name: str
    """Plural, as operators and addresses have it."""
    about: str
    """What they are, in a sentence."""
    columns: tuple[ResourceColumn, ...]
    empty: str
    """The sentence if there are none."""
    items: Callable[[Snapshot], Iterable[tuple[Any, ...]]] = lambda _: ()
    """Finds them in what is known."""
    asked: Callable[[OperatedSystem, Snapshot], Iterable[tuple[Any, ...]]] | None = None
    """Asks for them, if no snapshot has them."""
    value: Callable[..., dict[str, Any]] = plain
    """All that is known of one of them, for JSON."""
    needs: Detail = NO_DETAIL
    """What processes must have been asked for."""
    of_framework: bool = False
    """True if the framework alone knows them."""
    parts: Mapping[str, Callable[..., bool]] = field(default_factory=dict)
    """By which names JSON has them, and which ones; all by the resource's own name if there are none."""
    verbs: tuple[Verb, ...] = ()
    search: Callable[..., list[tuple[Any, ...]]] | None = None
    """Finds some of them, by ``search(at, …)``, whose parameters are annotated as those of a verb are."""

    def found(self, at: OperatedSystem) -> list[tuple[Any, ...]]:
        """Ask for all of them. Raises NnhalError if what knows them does not answer."""
        snapshot = at.look(self.needs)
        if self.of_framework and snapshot.framework is None:
            at.contacts.framework().framework()  # says why
        return list(self.items(snapshot) if self.asked is None else self.asked(at, snapshot))

    @property
    def heads(self) -> tuple[str, ...]:
        """Return the heads of its columns."""
        return tuple(column.head for column in self.columns)

    def row(self, item: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the cells of one, in the order of the columns."""
        return tuple(column.written(*item) for column in self.columns)

    def name_of(self, item: tuple[Any, ...]) -> str:
        """Return by what name verbs take one: what its first column has."""
        return self.columns[0].written(*item)

    def as_json(self, items: Iterable[tuple[Any, ...]]) -> dict[str, list[dict[str, Any]]]:
        """Return lists of values by name."""
        items = list(items)
        parts = self.parts or {self.name: lambda *_: True}
        return {name: [self.value(*item) for item in items if has(*item)] for name, has in parts.items()}

    def verb(self, name: str) -> Verb:
        """Return a verb. Raises LookupError, with those that there are."""
        known = {verb.name: verb for verb in self.verbs}
        if name not in known:
            raise LookupError(f"{self.name} have no verb {name!r}; {there_are(name, list(known))}")
        return known[name]


def undoing(resource: str, name: str, verb: str, **given: Any) -> str:
    """Return what undoes a change: a verb of a resource, with its parameters."""
    return f"{resource}/{quote(name)}/{verb} {json.dumps(given, ensure_ascii=False)}"


def count_of(number: int, word: str) -> str:
    """Write how many there are of a thing, such as ``2 faults``."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def split_id(text: str, what: str) -> tuple[str, str]:
    """Split PROCESS/ID. Raises ValueError."""
    process, _, identity = text.partition("/")
    if not process or not identity:
        raise ValueError(f"{what} {text!r}, expected PROCESS/ID as 'nnhal show {what}s' prints it, such as cpu_ref/s3")
    return process, identity
