"""Selections of lists by the query of their address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nnhal_dashboard.web.ranges import OwnTime


@dataclass(frozen=True, slots=True)
class QuerySelection:
    """The values of a query by their names, which templates read like attributes; an empty value asks for nothing."""

    given: Mapping[str, str] = field(default_factory=dict)
    time: OwnTime | None = None

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, str],
        names: Collection[str],
        choices: Mapping[str, Collection[str]],
        has_time: bool = False,
    ) -> QuerySelection:
        """Read a query. Raises ValueError if a value is none of its ``choices``, or an instant cannot be read."""
        given = {name: parameters[name] for name in names if parameters.get(name)}
        for name, allowed in choices.items():
            if name in given and given[name] not in allowed:
                raise ValueError(f"{name} is {given[name][:20]!r}, expected one of {', '.join(allowed)}")
        return cls(given, OwnTime.of(parameters) if has_time else None)

    def __getitem__(self, name: str) -> str:
        return self.given.get(name, "")

    @property
    def parameters(self) -> dict[str, str]:
        """The query."""
        return {**self.given, **(self.time.parameters if self.time is not None else {})}

    def is_any_or(self, name: str, *values: str) -> bool:
        """Return whether a value is not asked for, or is one of these."""
        return self[name] in ("", *values)

    def is_within(self, name: str, *texts: str) -> bool:
        """Return whether one of these texts contains what is asked for, in any case."""
        wanted = self[name].lower()
        return not wanted or any(wanted in text.lower() for text in texts)
