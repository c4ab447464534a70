"""Tables of pages.

Their elements have roles: without them, what is displayed as blocks is no table to a screen reader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from nnhal_pages.text import escaped, shortened, visible

_NAME_WIDTH = 44
"""Characters of a name that are shown; its title has all."""


def short_name(name: str) -> str:
    """A name's element, shortened in the middle, with the whole name as title."""
    return f"<span class='name' title='{escaped(name)}'>{escaped(shortened(visible(name), _NAME_WIDTH))}</span>"


def stacking_table(
    kind: str,
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """A table whose rows become blocks on a narrow screen, with the header's words before each cell.

    Cells are HTML. ``numbers`` are the columns that are aligned to the right. ``groups`` are titles, each of so many
    rows.
    """
    lines = []
    for first, *cells in rows:
        rest = "".join(
            f"<td role='cell'{_look(column, numbers)} data-label='{header[column]}'><div>{cell}</div></td>"
            for column, cell in enumerate(cells, 1)
        )
        lines.append(f"<tr role='row'><th role='rowheader' scope='row'>{first}</th>{rest}</tr>")
    remaining, bodies = iter(lines), []
    for title, count in groups or (("", len(lines)),):
        head = f"<th role='rowheader' colspan='{len(header)}' scope='rowgroup'>{title}</th>"
        grouped = f"<tr role='row' class='group'>{head}</tr>" if groups else ""
        bodies.append(f"<tbody role='rowgroup'>{grouped}{''.join(islice(remaining, count))}</tbody>")
    return table(f"{kind} labelled", caption, header, numbers, "".join(bodies))


def table(kind: str, caption: str, header: Sequence[str], numbers: Collection[int], bodies: str) -> str:
    """A table with bodies of its own."""
    heads = "".join(
        f"<th role='columnheader' scope='col'{_look(column, numbers)}>{title}</th>"
        for column, title in enumerate(header)
    )
    return (
        f"<table role='table' class='stacking {kind}'><caption>{caption}</caption>"
        f"<thead role='rowgroup'><tr role='row'>{heads}</tr></thead>{bodies}</table>"
    )


def _look(column: int, numbers: Collection[int]) -> str:
    return " class='number'" if column in numbers else ""
