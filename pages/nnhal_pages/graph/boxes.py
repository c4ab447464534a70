"""The boxes of a plan's graph, each drawn from its upper left corner on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nnhal_client.explanation import Explanation, OperationStory, StepStory
from nnhal_pages.facts import operation_name
from nnhal_pages.graph.scopes import NameScope
from nnhal_pages.graph.view import GraphView
from nnhal_pages.patterns import DeviceLane
from nnhal_pages.svg import element, label, rounded, title
from nnhal_pages.text import shortened, visible
from nnhal_pages.units import duration

STRIP = 9
"""The width of the strip with the pattern of the device."""
_LEFT = STRIP + 9
_OPERATION_WIDTH, _OPERATION_HEIGHT = 184, 60
_STEP_WIDTH = 240
_LINE = 16
_MARK_HEIGHT = 18
_CAPTION_WIDTH = 168
_NARROW, _LETTER, _CAPITAL = 4.2, 7.5, 8.6
"""The widths of characters."""
_TOGGLE = 18


@dataclass(frozen=True, slots=True)
class GraphBox:
    """A drawing of a known size."""

    width: float
    height: float
    content: str


def operation_box(number: int, story: OperationStory, lane: DeviceLane, share: float, view: GraphView) -> GraphBox:
    """An operation. ``share`` is its modelled time as a part of the longest one's, for a bar."""
    mark = view.marks.get(number, "")
    height = _OPERATION_HEIGHT + (_MARK_HEIGHT if mark else 0)
    name = operation_name(story, number)
    time = duration(story.modelled_ns) if story.modelled_ns > 0 else "no modelled time"
    spoken_words = f"{story.operation}, {name}, on {story.device}, {time}"
    notes = [words for words in ("pinned" if story.pin else "", mark) if words]
    parts = [
        title(f"{spoken_words}{f', pinned by {story.pin}' if story.pin else ''}"),
        *_frame(_OPERATION_WIDTH, height, lane, view),
        _text(19, story.operation, _OPERATION_WIDTH, "strong"),
        _text(34, name, _OPERATION_WIDTH, "muted"),
        _text(48, f"{time}{', pinned' if story.pin else ''}", _OPERATION_WIDTH),
    ]
    if share > 0:
        parts.append(_bar(share, _OPERATION_WIDTH, height))
    if mark:
        parts.append(_text(67, f"◆ {mark}", _OPERATION_WIDTH, "mark"))
    look = " ".join(("selected",) * (number in view.selected) + ("marked",) * bool(mark))
    href, spoken = view.links.operation(number), ", ".join((spoken_words, *notes))
    content = _link("".join(parts), href, spoken, f"{lane.class_} {look}", id=operation_id(view, number))
    return GraphBox(_OPERATION_WIDTH, height, content)


def step_box(
    number: int, explanation: Explanation, kinds: Sequence[str], marked: int, lane: DeviceLane, view: GraphView
) -> GraphBox:
    """A step whose operations are not shown. ``kinds`` says of what types they are, ``marked`` how many have marks."""
    first, *more = step_lines(number, explanation)
    lines = [(first, "strong"), (more[0], ""), (_fitting_words(kinds), "muted"), *((line, "") for line in more[1:])]
    if marked:
        lines.append((f"◆ {marked} marked", "mark"))
    height = _LINE * len(lines) + 14
    parts = [
        title(", ".join((first, *more)), ", ".join(kinds), *explanation.steps[number].optimizations),
        *_frame(_STEP_WIDTH, height, lane, view),
        *(
            _text(20 + _LINE * at, text, _STEP_WIDTH - (0 if at else _TOGGLE), look)
            for at, (text, look) in enumerate(lines)
        ),
    ]
    spoken_words = ", ".join((first, *more, *([f"{marked} marked"] if marked else [])))
    box = _link(
        "".join(parts), view.links.step(number), spoken_words, f"{lane.class_} step{' marked' if marked else ''}"
    )
    return GraphBox(_STEP_WIDTH, height, box + toggle(number, _STEP_WIDTH - _TOGGLE - 6, 7, view))


def operation_id(view: GraphView, number: int) -> str:
    """Return the id of an operation's box; a scope that is folded has that of its first operation."""
    return f"{view.name}-operation-{number}"


def scope_box(scope: NameScope, explanation: Explanation, lane: DeviceLane, share: float, view: GraphView) -> GraphBox:
    """A scope that is folded; it leads to the graph with its content. ``share`` is as for operations."""
    stories = [explanation.operations[member] for member in scope.members]
    time = sum(max(0.0, story.modelled_ns) for story in stories)
    kinds = [kind for kind, _ in Counter(story.operation for story in stories).most_common()]
    counted = f"{len(stories)} operations"
    lines = ((scope.name, "strong"), (f"{counted}, {duration(time) if time > 0 else 'no modelled time'}", ""))
    width, height = _STEP_WIDTH, _OPERATION_HEIGHT + 4
    parts = [
        title(f"{scope.name}, {lines[1][0]}", ", ".join(kinds)),
        element("rect", class_="behind", x=4.5, y=4.5, width=width - 5, height=height - 5, rx=4),
        *_frame(width - 4, height - 4, lane, view),
        *(
            _text(20 + _LINE * at, text, width - (4 if at else _TOGGLE + 4), look)
            for at, (text, look) in enumerate(lines)
        ),
        _text(20 + _LINE * 2, _fitting_words(kinds), width - 4, "muted"),
        moved(
            element("rect", class_="button", x=0.5, y=0.5, width=_TOGGLE - 1, height=_TOGGLE - 1, rx=3)
            + element("path", class_="sign", d="M5 9H13M9 5V13"),
            width - 4 - _TOGGLE - 6,
            7,
        ),
    ]
    if share > 0:
        parts.append(_bar(share, width - 4, height - 4))
    look = " selected" if view.selected.intersection(scope.members) else ""
    assert view.unfolded is not None
    target = view.links.unfolded(view.unfolded | {scope.number}, scope.members[0])
    spoken_words = f"Unfold {scope.name}, {lines[1][0]}"
    return GraphBox(
        width,
        height,
        _link(
            "".join(parts), target, spoken_words, f"{lane.class_} scope{look}", id=operation_id(view, scope.members[0])
        ),
    )


def _bar(share: float, width: float, height: float) -> str:
    """A modelled time as a part of the longest one, at the lower side of a box."""
    return element(
        "rect", class_="share", x=STRIP + 1, y=height - 4, width=max(share * (width - STRIP - 2), 1.0), height=3
    )


def _fitting_words(words: Sequence[str]) -> str:
    for count in range(len(words), 0, -1):
        text = ", ".join((*words[:count], *(["…"] if count < len(words) else [])))
        if fitting(text, _STEP_WIDTH - _LEFT - 6) == visible(text):
            return text
    return words[0] if words else ""


def step_lines(number: int, explanation: Explanation) -> tuple[str, ...]:
    """Return the lines about a step: its place, how much it is, its modelled time, and the measured one if there is
    one.
    """
    step: StepStory = explanation.steps[number]
    measured = explanation.measured
    lines = [f"Step {number} on {step.device}", f"{step.operations} operation{'s' if step.operations != 1 else ''}"]
    lines.append(f"modelled {duration(step.modelled_ns)}" if step.modelled_ns > 0 else "no modelled time")
    if measured and number < len(measured.step_device_ns) and measured.step_device_ns[number] >= 0:
        lines.append(f"measured {duration(measured.step_device_ns[number])}")
    return tuple(lines)


def toggle(number: int, x: float, y: float, view: GraphView) -> str:
    """A button that opens or closes a step."""
    is_open = number in view.open
    sign = "M5 9H13" if is_open else "M5 9H13M9 5V13"
    drawn = element("rect", class_="button", x=0.5, y=0.5, width=_TOGGLE - 1, height=_TOGGLE - 1, rx=3)
    words = f"{'Close' if is_open else 'Open'} step {number}"
    content = title(words) + drawn + element("path", class_="sign", d=sign)
    target = view.links.opened(view.open ^ {number})
    return moved(_link(content, target, words, "toggle"), x, y)


def pill(words: str, spoken_words: Sequence[str], width: float, class_: str) -> GraphBox:
    """A value on its way into a step or out of it, or the client."""
    height = 22
    content = (
        title(*spoken_words)
        + element("rect", class_="pill-ground", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=11)
        + label(width / 2, 15, words, "middle")
    )
    return GraphBox(width, height, element("g", content, class_=f"pill {class_}".strip()))


def caption(lines: Sequence[str], spoken_words: Sequence[str], class_: str) -> GraphBox:
    """Words in the middle of a line."""
    texts = "".join(
        label(_CAPTION_WIDTH / 2, 12 + 14 * at, fitting(text, _CAPTION_WIDTH), "middle")
        for at, text in enumerate(lines)
    )
    return GraphBox(
        _CAPTION_WIDTH,
        14 * len(lines) + 4,
        element("g", title(*spoken_words) + texts, class_=f"caption {class_}".strip()),
    )


def moved(content: str, x: float, y: float) -> str:
    return element("g", content, transform=f"translate({rounded(x)} {rounded(y)})")


def fitting(text: str, width: float, strong: bool = False) -> str:
    """As much of a text as has room in any common font."""
    shown = visible(text)
    kept = min(len(shown), int(width / _NARROW))
    while kept > 1 and _width(shortened(shown, kept)) * (1.08 if strong else 1.0) > width:
        kept -= 1
    return shortened(shown, max(kept, 1))


def _width(text: str) -> float:
    """About how wide a text is in the widest of the common fonts."""
    return sum(
        _NARROW if character in " .,:;/|!iljft()[]" else _CAPITAL if character.isupper() else _LETTER
        for character in text
    )


def _frame(width: float, height: float, lane: DeviceLane, view: GraphView) -> tuple[str, str]:
    return (
        element("rect", class_="frame", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=4),
        element("rect", class_="strip", x=1.0, y=1.0, width=STRIP, height=height - 2, fill=lane.fill(view.name)),
    )


def _text(y: float, text: str, width: float, class_: str = "") -> str:
    return label(_LEFT, y, fitting(text, width - _LEFT - 6, class_ == "strong"), class_)


def _link(content: str, target: str, spoken_words: str, class_: str, **attributes: object) -> str:
    return element("a", content, href=target, class_=f"node {class_}".strip(), aria_label=spoken_words, **attributes)
