"""HTML made by hand: a page with its style, tables, bars. Every string is escaped unless it is
Markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

CSS = """
:root { color-scheme: light; --line: #d8dde3; --quiet: #57606a; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1f2328;
  background: #fff; max-width: 1040px; margin: 2rem auto 4rem; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .4rem 0; max-width: 48rem; }
code { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
.wide { overflow-x: auto; }
.side { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start; }
.side > * { min-width: 0; max-width: 100%; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: .45rem .9rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.3; font-weight: 600; }
.tile span { color: var(--quiet); font-size: .85rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem;
  margin: .5rem 0; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 600; }
thead th { color: var(--quiet); vertical-align: bottom; }
th:first-child, td.text { text-align: left; }
tbody th, td.text { max-width: 18rem; overflow: hidden; text-overflow: ellipsis; }
tbody th { font-weight: 500; }
.list tbody th { white-space: normal; overflow-wrap: anywhere; max-width: 36rem; }
.matrix td { text-align: center; min-width: 2rem; padding: .2rem .3rem; border: 1px solid #eef0f2; }
.matrix thead th { padding: .3rem 0; }
.matrix thead th > span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 9rem;
  overflow: hidden; text-overflow: ellipsis; display: inline-block; text-align: left; }
.matrix thead th:not(:first-child) { text-align: center; }
td.bar { padding-left: 0; width: 7rem; min-width: 7rem; }
td.bar i { display: block; height: .65rem; background: #9cc4e0; }
figure { margin: .5rem 0; }
svg, img { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
svg .soft { fill: var(--quiet); }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; } }
"""


class Markup(str):
    """Text that is HTML already; every other string is escaped."""


def html(text: object) -> str:
    return text if isinstance(text, Markup) else escape(str(text))


def document(title: str, body: Iterable[str]) -> str:
    """A whole HTML file."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def cell(text: object, attributes: str = "", tag: str = "td") -> Markup:
    return Markup(f"<{tag}{attributes and ' '}{attributes}>{html(text)}</{tag}>")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], kind: str = "") -> Markup:
    """Rows begin with their name. A cell that is Markup stands as it is."""
    lines = [
        cell(first, "" if isinstance(first, Markup) else f'title="{escape(str(first))}"', "th")
        + "".join(c if isinstance(c, Markup) else cell(c) for c in rest)
        for first, *rest in rows
    ]
    head = "".join(cell(h, tag="th") for h in header)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return Markup(
        f'<div class="wide"><table class="{kind}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def bar(share: float) -> Markup:
    """A cell with a bar for a share between 0 and 1."""
    return Markup(f'<td class="bar"><i style="width: {100 * share:.1f}%"></i></td>')
