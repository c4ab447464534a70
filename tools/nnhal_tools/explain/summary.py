"""An explanation in ten lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console

from nnhal_client.explanation import EdgeStory, Explanation, OperationStory
from nnhal_pages.image_layouts import layout_figure, layout_words
from nnhal_pages.units import duration, median_of
from nnhal_pages.wires import whole_model_words, wire_total

_STEPS = 6
_REFUSING = 3
_TYPES = 3


def show_summary(explanation: Explanation, console: Console, notes: Sequence[str] = ()) -> None:
    """Print the plan, who refuses what, memory and times, with further lines after them."""
    for line in (*_plan(explanation), *_refusals(explanation), *_costs(explanation), *notes):
        console.print(line, markup=False)


def time_of(nanoseconds: float) -> str:
    """A modelled time, which may be unknown."""
    return duration(nanoseconds) if nanoseconds >= 0 else "unknown"


def bytes_of(count: int) -> str:
    """The bytes of a value, none of which are known if its dimensions are not."""
    return f"{count:,}" if count else "unknown"


def _plan(explanation: Explanation) -> Iterator[str]:
    devices = Counter(story.device for story in explanation.operations)
    told = ", ".join(f"{count} on {name}" for name, count in devices.most_common())
    yield f"{_counted(len(explanation.operations), 'operation')} in {_counted(len(explanation.steps), 'step')}: {told}"
    if len(explanation.steps) > 1:
        steps = [f"{step.device} {step.operations}" for step in explanation.steps[:_STEPS]]
        more = len(explanation.steps) - _STEPS
        yield f"steps, with their operations: {', '.join(steps)}" + (f" and {more} more" if more > 0 else "")


def _refusals(explanation: Explanation) -> Iterator[str]:
    """A line for each of the devices that refuse most."""
    refusing = Counter(device for story in explanation.operations for device in story.refusals)
    for device, count in refusing.most_common(_REFUSING):
        refused = [story for story in explanation.operations if device in story.refusals]
        yield f"{device} refuses {count}: {_types(refused)}; {_most_frequent(device, refused)}"
    if len(refusing) > _REFUSING:
        yield f"{len(refusing) - _REFUSING} more devices refuse some"


def _types(refused: Sequence[OperationStory]) -> str:
    types = Counter(story.operation for story in refused)
    told = ", ".join(f"{name} {count}" for name, count in types.most_common(_TYPES))
    return told + (f" and {len(types) - _TYPES} more types" if len(types) > _TYPES else "")


def _most_frequent(device: str, refused: Sequence[OperationStory]) -> str:
    ((reason, count),) = Counter(story.refusals[device] for story in refused).most_common(1)
    return reason if count == len(refused) else f"{count} since {reason}"


def _costs(explanation: Explanation) -> Iterator[str]:
    copying = [edge for edge in explanation.edges if edge.strategy == "CopyToTarget"]
    of_client = [edge for edge in explanation.edges if not (edge.source and edge.destination)]
    copied = f"copied in a run, by plan: {explanation.copied_bytes:,} bytes{_unknown(copying)}, over {len(copying)} of "
    yield copied + _counted(len(explanation.edges), "edge")
    yield (
        f"memory: {explanation.fallback_bytes:,} bytes between steps ({explanation.fallback_bytes_unaligned:,} without "
        f"alignment), {explanation.constant_bytes:,} of constants, {explanation.client_bytes:,}{_unknown(of_client)} "
        "of the client's"
    )
    if figure := layout_figure(explanation):
        yield f"layout of images: {figure}; {layout_words(explanation)}"
    if sent := wire_total(explanation):
        yield f"wire: {sent}; constants were sent when the model was prepared"
    if figure := layout_figure(explanation):
        yield f"layout of images: {figure}; {layout_words(explanation)}"
    measured = explanation.measured
    yield f"modelled {time_of(explanation.modelled_ns)}" + (
        f"; measured {duration(measured.duration_ns)} ({median_of(measured)}), {measured.copied_bytes:,} bytes copied "
        "in a run"
        if measured is not None
        else ""
    )
    alone = [
        f"all on {other.device} "
        + (f"would be {whole_model_words(other)}" if other.modelled_ns else f"is not possible: {other.reason}")
        for other in explanation.counterfactuals
        if other.modelled_ns >= 0
    ]
    if alone:
        yield "; ".join(alone)


def _unknown(edges: Sequence[EdgeStory]) -> str:
    return " and those of unknown dimensions" if any(not edge.bytes for edge in edges) else ""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
