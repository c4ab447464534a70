"""The name scopes of a plan's operations, such as ``encoder/layer0``: each can stand as one box for all that it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from nnhal_client.explanation import Explanation, OperationStory
from nnhal_pages.facts import facts_of

_FEW = 48
"""A step with no more operations than this is shown without scopes."""


@dataclass(frozen=True, slots=True)
class NameScope:
    """Operations of one step whose names begin with the same words."""

    number: int
    """Its number in the plan."""
    name: str
    step: int
    members: tuple[int, ...]
    """All its operations, those of scopes in it too, by their numbers in the explanation."""
    content: tuple[int | NameScope, ...]
    """The operations that are in no scope within it, and the scopes, in the order of the plan."""


GraphItem = int | NameScope
"""What is drawn as one box: an operation, or a scope that is folded."""


class PlanScopes:
    """The scopes of a plan, by their numbers."""

    def __init__(self, explanation: Explanation) -> None:
        """Find them. Scopes of a single operation, and those that have all of the scope around them, are none."""
        self.all: list[NameScope] = []
        self._content: dict[int, tuple[GraphItem, ...]] = {}
        paths = [_path(story) for story in explanation.operations]
        for step, members in facts_of(explanation).members.items():
            is_large = step >= 0 and len(members) > _FEW
            self._content[step] = self._split(step, members, paths, 0) if is_large else members

    def visible(self, step: int, unfolded: Collection[int]) -> list[GraphItem]:
        """Return what a step shows if these scopes are unfolded."""
        return list(_shown(self._content.get(step, ()), unfolded))

    def around(self, operation: int) -> list[NameScope]:
        """Return the scopes that have an operation, the outermost first."""
        return [scope for scope in self.all if operation in scope.members]

    def _split(
        self, step: int, members: Sequence[int], paths: Sequence[Sequence[str]], depth: int
    ) -> tuple[GraphItem, ...]:
        groups: dict[str | int, list[int]] = {}
        for member in members:
            groups.setdefault(paths[member][depth] if depth < len(paths[member]) else member, []).append(member)
        if len(groups) == 1 and len(members) > 1:
            return self._split(step, members, paths, depth + 1)
        return tuple(
            self._scope(step, group, paths, depth) if len(group) > 1 else group[0] for group in groups.values()
        )

    def _scope(self, step: int, members: Sequence[int], paths: Sequence[Sequence[str]], depth: int) -> NameScope:
        number = len(self.all)
        self.all.append(NameScope(number, "", step, (), ()))  # takes the number before the scopes within
        name = "/".join(paths[members[0]][: depth + 1])
        scope = NameScope(number, name, step, tuple(members), self._split(step, members, paths, depth + 1))
        self.all[number] = scope
        return scope


def _shown(content: Sequence[GraphItem], unfolded: Collection[int]) -> Iterator[GraphItem]:
    for item in content:
        if isinstance(item, NameScope) and item.number in unfolded:
            yield from _shown(item.content, unfolded)
        else:
            yield item


def _path(story: OperationStory) -> tuple[str, ...]:
    """Return the words of an operation's scope, the outermost first: its name without the last word."""
    name = next(filter(None, story.nodes), "").strip("/")
    return tuple(name.split("/" if "/" in name else ".")[:-1])
