"""Penn Treebank files: bracketed trees (.mrg) as dependencies, and tagged text (.pos).

Heads are found by the table of Collins (1999, appendix A), which goes back to Magerman (1995) and
from which Yamada and Matsumoto (2003) made theirs. Each constituent passes the head word of its
head child on to its parent, and the other children depend on that word. Traces (-NONE-) and
constituents of nothing but traces are left out first. Papers on dependency parsing of the Wall
Street Journal differ in small details of their tables, so compare figures with care.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from turbotag.errors import DataError

# For each constituent, where the search begins and what is looked for, most wanted first; with no
# hit the head is the first child from that side.
HEADS: dict[str, tuple[str, str]] = {
    "ADJP": ("left", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
    "ADVP": ("right", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": ("right", "CC RB IN"),
    "FRAG": ("right", ""),
    "INTJ": ("left", ""),
    "LST": ("right", "LS :"),
    "NAC": ("left", "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "PP": ("right", "IN TO VBG VBN RP FW"),
    "PRN": ("left", ""),
    "PRT": ("right", "RP"),
    "QP": ("left", "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": ("right", "VP NP ADVP ADJP PP"),
    "S": ("left", "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": ("left", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": ("left", "SQ S SINV SBARQ FRAG"),
    "SINV": ("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": ("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": ("right", ""),
    "VP": ("left", "TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP"),
    "WHADJP": ("left", "CC WRB JJ ADJP"),
    "WHADVP": ("right", "CC WRB"),
    "WHNP": ("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": ("right", "IN TO FW"),
}
# Noun phrases: steps that each look for any of a set. NX is not in Collins' table.
NOUN_PHRASES = ("NP", "NX")
NOUN_STEPS = (
    ("right", "NN NNP NNPS NNS NX POS JJR"),
    ("left", "NP"),
    ("right", "$ ADJP PRN"),
    ("right", "CD"),
    ("right", "JJ JJS RB QP"),
)
PUNCTUATION = frozenset([",", ".", ":", "``", "''"])  # tags that evaluation on this corpus skips
BRACKETS = frozenset(["-LRB-", "-RRB-", "(", ")"])
CLAUSES = ("VP", "S", "SQ", "SINV", "SBARQ")
ADVERBIAL = frozenset(["ADV", "BNF", "DIR", "EXT", "LOC", "MNR", "PRP", "TMP", "VOC"])
MODIFIERS = {
    **dict.fromkeys(CLAUSES, "VMOD"),
    **dict.fromkeys(("NP", "NX", "NAC", "WHNP"), "NMOD"),
    **dict.fromkeys(("ADJP", "ADVP", "QP", "WHADJP", "WHADVP"), "AMOD"),
    **dict.fromkeys(("PP", "WHPP"), "PMOD"),
    "SBAR": "SBAR",
}

_TOKEN = re.compile(r"[()\n]|[^\s()]+")


@dataclass
class Sentence:
    """Words and tags; in a parsed sentence also the head of each word, from 1, and its label."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


@dataclass
class _Node:
    line: int
    label: str | None = None
    word: str | None = None
    parent_of: bool = False  # a bracket was opened inside it
    children: list[_Node] = field(default_factory=list)
    head: int = -1  # the position of its head word

    @property
    def category(self) -> str:
        """NP of NP-SBJ-1, ADVP of ADVP|PRT; a tag as it is."""
        if self.word is not None:
            return self.label or ""
        return re.split("[-=|]", self.label or "", maxsplit=1)[0]

    @property
    def functions(self) -> set[str]:
        if self.word is not None:
            return set()
        return set(re.split("[-=]", self.label or "")[1:])


def coarse(tag: str) -> str:
    """A coarse tag: PUNCT for what evaluation skips, else two characters, as in CoNLL-2007."""
    return "PUNCT" if tag in PUNCTUATION else tag[:2]


def head_child(category: str, children: list[str]) -> int:
    """Which child is the head of a constituent, by the categories of its children.

    Punctuation and brackets are chosen only where there is nothing else. In a coordination, where
    the choice stands behind a CC, the head is what stands before the CC.
    """
    rest = [i for i, c in enumerate(children) if c not in PUNCTUATION and c not in BRACKETS]
    rest = rest or list(range(len(children)))
    kept = [children[i] for i in rest]
    if category in NOUN_PHRASES:
        chosen = _noun_head(kept)
    else:
        side, wanted = HEADS.get(category, ("left", ""))
        found = _search(kept, side, [[w] for w in wanted.split()])
        outer = 0 if side == "left" else len(kept) - 1
        chosen = outer if found is None else found
    if chosen >= 2 and kept[chosen - 1] == "CC":
        chosen -= 2
    return rest[chosen]


def _noun_head(children: list[str]) -> int:
    if children[-1] == "POS":
        return len(children) - 1
    for side, wanted in NOUN_STEPS:
        found = _search(children, side, [wanted.split()])
        if found is not None:
            return found
    return len(children) - 1


def _search(children: list[str], side: str, wanted: list[list[str]]) -> int | None:
    order = range(len(children)) if side == "left" else range(len(children) - 1, -1, -1)
    for group in wanted:
        for i in order:
            if children[i] in group:
                return i
    return None


def _label(parent: _Node, child: _Node, tag: str) -> str:
    """What a child that is not the head is to its parent, by the two constituents."""
    category = child.category
    if tag in PUNCTUATION:
        return "P"
    if "SBJ" in child.functions:
        return "SUB"
    if "PRD" in child.functions:
        return "PRD"
    if parent.category in CLAUSES and category == "VP":
        return "VC"
    if parent.category == "VP" and category == "NP" and not child.functions & ADVERBIAL:
        return "OBJ"
    return MODIFIERS.get(parent.category, "DEP")


def trees(text: str, path: str) -> Iterator[Sentence]:
    """The sentences of a .mrg file, as dependencies."""
    stack: list[_Node] = []
    sentence, line = Sentence(), 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
        elif token == "(":
            if stack and stack[-1].word is not None:
                raise DataError("a bracket opens beside a word", path, line)
            if stack:
                stack[-1].parent_of = True
                stack[-1].label = stack[-1].label or ""
            stack.append(_Node(line))
        elif token == ")":
            if not stack:
                raise DataError("a bracket closes that was not opened", path, line)
            node = stack.pop()
            if _close(node, sentence, path) and stack:
                stack[-1].children.append(node)
            if not stack:
                if sentence.words:
                    sentence.heads[node.head], sentence.labels[node.head] = 0, "ROOT"
                    yield sentence
                sentence = Sentence()
        elif not stack:
            raise DataError(f"expected '(', found {token!r}", path, line)
        elif stack[-1].label is None:
            stack[-1].label = token
        elif stack[-1].word is None and not stack[-1].parent_of:
            stack[-1].word = token
        else:
            raise DataError(f"word {token!r} has no bracket and tag of its own", path, line)
    if stack:
        raise DataError(f"the bracket of line {stack[0].line} is not closed", path, line)


def _close(node: _Node, sentence: Sentence, path: str) -> bool:
    """Give a finished node its head word and its other children their heads; False if it is empty
    but for traces."""
    if node.word is not None:
        if node.label == "-NONE-":
            return False
        node.head = len(sentence.words)
        sentence.words.append(node.word)
        sentence.tags.append(node.label or "")
        sentence.heads.append(-1)
        sentence.labels.append("")
        return True
    if not node.parent_of:
        raise DataError("expected (TAG word) or (LABEL (...) ...)", path, node.line)
    if not node.children:
        return False
    chosen = node.children[head_child(node.category, [c.category for c in node.children])]
    node.head = chosen.head
    for child in node.children:
        if child is not chosen:
            sentence.heads[child.head] = node.head + 1
            sentence.labels[child.head] = _label(node, child, sentence.tags[child.head])
    return True


def tagged(text: str, path: str) -> Iterator[Sentence]:
    """The sentences of a .pos file: word/TAG tokens, noun phrases in [ ], ==== between paragraphs.

    The files do not mark sentences. One ends with its paragraph, or behind a token with the tag "."
    that is not in [ ], and takes closing quotes and brackets that follow with it.
    """
    sentence, inside, ended = Sentence(), False, False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("*x*"):  # copyright
            continue
        if re.match("====+[ \r]*$", line):
            if sentence.words:
                yield sentence
            sentence, inside, ended = Sentence(), False, False
            continue
        for token in line.split():
            if token in ("[", "]"):
                inside = token == "["
                continue
            word, slash, tag = token.rpartition("/")
            if not (word and slash and tag):
                raise DataError(f"expected word/TAG, found {token!r}", path, number)
            if ended and tag not in ("''", ")"):
                yield sentence
                sentence, ended = Sentence(), False
            sentence.words.append(word)
            sentence.tags.append(tag)
            ended = ended or (tag == "." and not inside)
    if sentence.words:
        yield sentence
