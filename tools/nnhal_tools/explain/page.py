"""An explanation as one HTML page with a picture: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from html import escape

from nnhal_client.explanation import EdgeStory, Explanation, StepStory

_WIDTH, _HEIGHT, _GAP, _LEFT = 190, 46, 34, 20
_COLOURS = ("#d6e6f5", "#f8dfc4", "#d9ead3", "#ead1dc", "#fff2cc", "#d0e0e3")
_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:80em}table{border-collapse:collapse;margin:1em 0}"
    "td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}th{background:#f4f4f4}"
    "text{font:12px system-ui,sans-serif}.copy{color:#b00020}"
)


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document."""
    operations = _table(
        ("node", "operation", "device", "step", "modelled µs", "what the others said"),
        [
            (
                ", ".join(o.nodes) or "-",
                o.operation,
                o.device,
                str(o.step),
                f"{o.modelled_ns / 1e3:.1f}",
                "; ".join(f"{device}: {reason}" for device, reason in o.refusals.items()),
            )
            for o in explanation.operations
        ],
    )
    edges = _table(
        ("value", "from", "to", "strategy", "layer", "memory", "bytes", "copied", "why"),
        [
            (
                e.value,
                e.source,
                e.destination,
                e.strategy,
                e.layer + (" + sync" if e.sync else ""),
                f"{e.memory} / {e.alignment}",
                f"{e.bytes:,}",
                f"{e.copied_bytes:,}",
                e.reason,
            )
            for e in explanation.edges
        ],
    )
    others = "".join(
        f"<li>{escape(_other(c.device, c.modelled_ns, c.reason))}</li>" for c in explanation.counterfactuals
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>Modelled {explanation.modelled_ns / 1e3:.1f} µs; peak memory "
        f"{explanation.peak_bytes:,} bytes; {explanation.copied_bytes:,} bytes copied in a run.</p><ul>{others}</ul>"
        f"{picture(explanation)}<h2>Operations</h2>{operations}<h2>Edges</h2>{edges}</html>"
    )


def picture(explanation: Explanation) -> str:
    """The steps one below the other, coloured by device, with the edges between them: an SVG element."""
    devices = list(dict.fromkeys(step.device for step in explanation.steps))
    height = len(explanation.steps) * (_HEIGHT + _GAP) + _GAP
    boxes = [
        _box(number, step, _COLOURS[devices.index(step.device) % len(_COLOURS)])
        for number, step in enumerate(explanation.steps)
    ]
    arrows = [_arrow(edge) for edge in explanation.edges if edge.source_step >= 0 and edge.destination_step >= 0]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 {height}' width='760' height='{height}'>"
        "<defs><marker id='a' markerWidth='8' markerHeight='8' refX='7' refY='4' orient='auto'>"
        f"<path d='M0,0 L8,4 L0,8 z'/></marker></defs>{''.join(boxes)}{''.join(arrows)}</svg>"
    )


def _box(number: int, step: StepStory, colour: str) -> str:
    top = _top(number)
    text = f"{number}: {step.device}, {step.operations} operations, {step.modelled_ns / 1e3:.0f} µs"
    return (
        f"<rect x='{_LEFT}' y='{top}' width='{_WIDTH + 60}' height='{_HEIGHT}' rx='6' fill='{colour}' stroke='#888'/>"
        f"<text x='{_LEFT + 10}' y='{top + 27}'>{escape(text)}</text>"
    )


def _arrow(edge: EdgeStory) -> str:
    start, end = _top(edge.source_step) + _HEIGHT, _top(edge.destination_step)
    bend = 40 * max(0, edge.destination_step - edge.source_step - 1)
    x = _LEFT + _WIDTH + 60 - 20
    colour = "#b00020" if edge.copied_bytes else "#2e7d32"
    path = f"M{x},{start} C{x + bend},{start} {x + bend},{end} {x},{end}"
    label = f"{edge.value}: {edge.layer or edge.strategy}, {edge.bytes:,} bytes"
    return (
        f"<path d='{path}' fill='none' stroke='{colour}' marker-end='url(#a)'/>"
        f"<text x='{x + bend * 3 // 4 + 12}' y='{(start + end) // 2 + 4}'>{escape(label)}</text>"
    )


def _top(step: int) -> int:
    return _GAP + step * (_HEIGHT + _GAP)


def _other(device: str, nanoseconds: float, reason: str) -> str:
    told = f"would be {nanoseconds / 1e3:.1f} µs" if nanoseconds else f"is not possible: {reason}"
    return f"all on {device} {told}"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
