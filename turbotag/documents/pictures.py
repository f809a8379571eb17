"""Pictures of documents: trees and entities, in a notebook, as a file or as text."""

from __future__ import annotations

import base64
import html as markup
from collections.abc import Sequence
from pathlib import Path

from turbotag.documents.document import Document, Sentence
from turbotag.errors import ArgumentError
from turbotag.report import draw as drawings
from turbotag.report.drawing import Drawing
from turbotag.storage.store import write_atomically

SHOWN = 30  # sentences in a notebook
KINDS = (".svg", ".html", ".txt")


class Picture(str):
    """An SVG, which a notebook shows."""

    def _repr_html_(self) -> str:
        return _image(self, "")


def draw(doc: Document | Sentence, path: str | None = None) -> Picture:
    """The trees and entities of a document or a sentence as an SVG, one sentence below the other; a
    notebook shows it. path: a file to write, .svg, .html (a page on which sentences open) or .txt
    (for a terminal)."""
    if not isinstance(doc, Document | Sentence):
        raise ArgumentError(f"draw() takes a Document or a Sentence, not {doc!r:.60}")
    sentences = [doc] if isinstance(doc, Sentence) else doc.sentences
    if not sentences:
        raise ArgumentError("the document has no sentences")
    every = [drawing(sentence) for sentence in sentences]
    svg = Picture(drawings.svg(*every))
    if path is not None:
        kind = Path(path).suffix
        if kind not in KINDS:
            raise ArgumentError(f"path is {path!r}: it must end in one of {', '.join(KINDS)}")
        text = "\n\n".join(map(drawings.ascii, every)) + "\n" if kind == ".txt" else svg
        page = drawings.html(every) if kind == ".html" else text
        write_atomically(path, page.encode())
    return svg


def drawing(sentence: Sentence) -> Drawing:
    """A sentence as the Drawing that `report.draw` takes."""
    tokens = sentence.tokens
    tags = [t.upos or t.xpos or "" for t in tokens]
    heads = [t.head for t in tokens if t.head is not None]
    chances = [t.probabilities["head"] for t in tokens if "head" in t.probabilities]
    tree = len(heads) == len(tokens)
    return Drawing(
        [t.text for t in tokens],
        tags if any(tags) else None,
        heads if tree else None,
        [t.label or "" for t in tokens] if tree and any(t.label for t in tokens) else None,
        chances if len(chances) == len(tokens) else None,
        [(e.start, e.end - 1, e.type) for e in sentence.entities],
        number=sentence.number + 1,
    )


def html(sentences: Sequence[Sentence]) -> str:
    """Pictures of some sentences, for a notebook. Each is an image of its own: the style rules of
    an SVG that stands in a page would hold for the whole page."""
    shown = [_image(drawings.svg(drawing(s)), s.text) for s in sentences[:SHOWN]]
    rest = len(sentences) - len(shown)
    if rest > 0:
        shown.append(f"<p>{rest} more sentences: turbotag.draw(doc, 'trees.html') draws all</p>")
    return "\n".join(shown)


def _image(svg: str, text: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return (
        '<div style="overflow-x:auto"><img style="max-width:none" '
        f'alt="{markup.escape(text)}" src="data:image/svg+xml;base64,{data}"></div>'
    )
