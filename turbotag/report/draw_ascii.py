"""Trees and entities in a terminal: one word a line, its arcs on the left in box characters."""

from __future__ import annotations

from turbotag.report.drawing import Drawing, Entity, clean, columns


def ascii(drawing: Drawing) -> str:
    """A table of arcs, number, word, tag, label, entities and, against gold, what is wrong.

    Every head has one vertical line, on which its dependents hang; an arrow points at them. A
    horizontal line that is interrupted by a vertical one crosses it.
    """
    d, n = drawing, len(drawing.words)
    table = [[f"{m:>{len(str(n))}}" for m in range(1, n + 1)], d.words]
    if d.tags is not None:
        table.append(d.tags)
    if d.heads is not None:
        table = [_arcs(d.heads), *table, [_label(d, m) for m in range(n)]]
    table.append(_brackets(d.entities, n, ["✗" if e in d.spurious else "" for e in d.entities]))
    table.append(_brackets(d.missed, n, ["missed"] * n))
    if d.gold_heads is not None:
        table.append([_correction(d, m) for m in range(n)])
    table = [[clean(cell) for cell in column] for column in table]
    widths = [max(map(columns, column)) for column in table]
    lines = []
    for m in range(n):
        cells = [(column[m], w) for column, w in zip(table, widths, strict=True) if w]
        lines.append("  ".join(s + " " * (w - columns(s)) for s, w in cells).rstrip())
    return "\n".join(lines)


def _label(d: Drawing, m: int) -> str:
    return d.labels[m] if d.labels is not None else "" if d.heads and d.heads[m] else "root"


def _correction(d: Drawing, m: int) -> str:
    """What is wrong with the arc into word m, from 0."""
    if d.right_heads[m] and d.right_labels[m]:
        return ""
    assert d.gold_heads is not None
    head = d.gold_heads[m]
    where = [] if d.right_heads[m] else [f"{head} {d.words[head - 1]}" if head else "root"]
    label = [] if d.gold_labels is None else [d.gold_labels[m]]
    return " ".join(["✗ gold:", *where, *label])


def _brackets(entities: list[Entity], n: int, remarks: list[str]) -> list[str]:
    """A bracket over the words of each entity, with its type and a remark."""
    out = [""] * n
    for (a, b, name), remark in zip(entities, remarks, strict=False):
        out[a : b + 1] = ["│"] * (b - a + 1)
        out[b] = "┘"
        out[a] = f"{'┐' if a < b else ']'} {name} {remark}"
    return out


def _arcs(heads: list[int]) -> list[str]:
    """The lines left of the words: that of a head stands left of those of its dependents."""
    n = len(heads)
    lines = _lines(heads)
    width = 1 + max((level for _, _, level in lines.values()), default=-1)
    rows = []
    for m in range(1, n + 1):
        head = heads[m - 1]
        row, running = "", False
        for level in range(width - 1, -1, -1):
            glyph = "─" if running else " "
            for h, (first, last, at) in lines.items():
                if at == level and first <= m <= last:
                    if h in (m, head):
                        glyph = "┌" if m == first else "└" if m == last else "├"
                        running = True
                    else:
                        glyph = "│"
            below = m in lines and level == lines[m][2] + 1  # the arrow comes before m's own line
            arrow = running and head and (below if m in lines else level == 0)
            row += glyph + ("►" if arrow else "─" if running else " ")
        rows.append(row)
    return rows


def _lines(heads: list[int]) -> dict[int, tuple[int, int, int]]:
    """First word, last word and level of each head's vertical line; level 0 is next to words."""
    depth = {m: _depth(heads, m) for m in range(1, len(heads) + 1)}
    lines: dict[int, tuple[int, int, int]] = {}
    for h in sorted(set(heads) - {0}, key=lambda h: -depth[h]):
        children = [m for m, head in enumerate(heads, 1) if head == h]
        first, last = min(h, *children), max(h, *children)
        level = 1 + max((lines[m][2] for m in children if m in lines), default=-1)
        taken = {at for a, b, at in lines.values() if a <= last and first <= b}
        while level in taken:
            level += 1
        lines[h] = first, last, level
    return lines


def _depth(heads: list[int], m: int) -> int:
    depth = 0
    while heads[m - 1] and depth < len(heads):  # ends even on a cycle
        m, depth = heads[m - 1], depth + 1
    return depth
