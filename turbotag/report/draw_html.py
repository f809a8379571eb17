"""Trees and entities as one HTML page that needs no other file. It lists the sentences; the open
one shows its tree. The trees of the others stay in templates, so that thousands of sentences cost
no time."""

from __future__ import annotations

from turbotag.report.draw_svg import (
    DARK,
    FONT,
    HUES,
    LIGHT,
    escape,
    frame,
    hues,
    legend,
    picture,
    rules,
)
from turbotag.report.drawing import Drawing, summary

_STYLE = f"""
body{{margin:0 auto;padding:28px 24px 40vh;max-width:1680px;background:var(--page);
 color:var(--ink);font:16px/1.5 {FONT}}}
h1{{margin:0;font-size:22px;line-height:1.3;overflow-wrap:anywhere}}
p{{margin:2px 0 10px;color:var(--dim);font-size:14px}}
#legend{{display:flex;flex-wrap:wrap;align-items:center;margin-bottom:14px}}
label{{font-size:14px;cursor:pointer}}
ol{{list-style:none;margin:12px 0 0;padding:0;border-top:1px solid var(--rule)}}
li{{border-bottom:1px solid var(--rule);content-visibility:auto;contain-intrinsic-size:auto 42px}}
ol.only li:not(.bad){{display:none}}
button{{display:flex;gap:14px;width:100%;padding:8px 10px;border:0;background:none;color:inherit;
 font:inherit;text-align:start;cursor:pointer}}
button:hover,.open button{{background:var(--soft)}}
button:focus-visible{{outline:2px solid var(--gold);outline-offset:-2px}}
.number{{min-width:28px;flex:none;text-align:right;color:var(--dim);font-size:13px;line-height:24px;
 font-variant-numeric:tabular-nums}}
.text{{flex:1;min-width:0;max-width:64em;overflow-wrap:anywhere}}
.count{{flex:none;margin-inline-start:auto;color:var(--wrong);font-size:14px;line-height:24px;white-space:nowrap}}
mark{{color:inherit;border-radius:4px;padding:1px 3px}}
mark small{{margin-inline-start:4px;font-size:10px;font-weight:600}}
figure{{margin:0;padding:0 0 6px 38px;overflow-x:auto}}
figure svg,#legend svg{{display:block;flex:none}}
.arcs g:hover path{{stroke-width:2.8;stroke-opacity:1}}
"""

_SCRIPT = """
const items = [...document.querySelectorAll("li")];
const only = document.getElementById("only");
let open = null;

function close() {
  if (!open) return;
  open.classList.remove("open");
  open.querySelector("button").setAttribute("aria-expanded", "false");
  open.querySelector("figure").remove();
  open = null;
}

function show(item) {
  close();
  open = item;
  const figure = document.createElement("figure");
  figure.append(item.querySelector("template").content.cloneNode(true));
  item.append(figure);
  item.classList.add("open");
  item.querySelector("button").setAttribute("aria-expanded", "true");
}

function go(item) {
  show(item);
  item.querySelector("button").focus({preventScroll: true});
  item.scrollIntoView({block: "nearest"});
  try { history.replaceState(null, "", "#" + item.id); } catch { /* a page inside another */ }
}

function fromHash(otherwise) {
  const item = items.find(i => "#" + i.id === location.hash);
  if (item) go(item); else if (otherwise) show(otherwise);
}

for (const item of items)
  item.querySelector("button").onclick = () => item === open ? close() : go(item);
if (only) only.onchange = () => document.querySelector("ol").classList.toggle("only", only.checked);
addEventListener("hashchange", () => fromHash());
addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const across = {ArrowLeft: -120, ArrowRight: 120}[event.key];
  const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (across && open) open.querySelector("figure").scrollLeft += across;
  if (!step) return;
  event.preventDefault();
  let k = open ? items.indexOf(open) + step : 0;
  while (items[k] && only?.checked && !items[k].classList.contains("bad")) k += step;
  if (items[k]) go(items[k]);
});
fromHash(items[0]);
"""


def html(drawings: list[Drawing], title: str = "Trees and entities") -> str:
    """The page; sentence 3 of the file is at #s3."""
    colours = hues(drawings)
    gold = any(d.gold_heads is not None or d.gold_entities is not None for d in drawings)
    share = f"{sum(d.errors > 0 for d in drawings):,} of {len(drawings):,}"
    only = f'<label><input type="checkbox" id="only"> errors only ({share})</label>'
    keys = "".join(frame(markup, width, 20) for markup, width in legend(drawings))
    words = sum(len(d.words) for d in drawings)
    facts = [f"{len(drawings):,} sentences, {words:,} words", summary(drawings)]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_style()}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            f"<p>{' · '.join(filter(None, facts))}</p>",
            f'<div id="legend">{keys}</div>' if keys else "",
            only if gold else "",
            "<ol>",
            *(_item(d, colours) for d in drawings),
            f"</ol>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def _style() -> str:
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in palette.items())
        for palette in (
            LIGHT | {"rule": "#d8dee4", "soft": "#f3f5f7"},
            DARK | {"rule": "#30363d", "soft": "#20252c"},
        )
    )
    marks = "".join(f"mark.t{k}{{background:{hue}38}}\n" for k, hue in enumerate(HUES))
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        + _STYLE
        + rules({name: f"var(--{name})" for name in LIGHT})
        + marks
    )


def _item(d: Drawing, colours: dict[str, int]) -> str:
    """A line of the list with its picture."""
    words = [escape(w) for w in d.words]
    for a, b, name in d.entities:
        words[a] = f'<mark class="t{colours[name]}">{words[a]}'
        words[b] += f"<small>{escape(name)}</small></mark>"
    bad = d.errors
    return (
        f'<li id="s{d.number}"{" class=bad" if bad else ""}><button aria-expanded="false">'
        f'<span class="number">{d.number}</span>'
        f'<span class="text" dir="auto">{" ".join(words)}</span>'
        + (f'<span class="count">✗ {bad}</span>' if bad else "")
        + f"</button><template>{frame(*picture(d, colours))}</template></li>"
    )
