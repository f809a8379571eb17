"""Words with what hangs on them, and the vocabulary of a treebank: for formal_english.py."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL = range(8)
PREPOSITIONS = ("for", "on", "about", "with", "at", "to", "in", "from", "into", "of", "by")


@dataclass
class Word:
    """A word with what hangs on it, in the order of the text. A child has a head of its own where
    the tree crosses: *which we hoped for*, with *for* below *which*."""

    form: str
    upos: str
    xpos: str
    left: list[Child] = field(default_factory=list)
    right: list[Child] = field(default_factory=list)
    plural: bool = False

    def first(self, deprel: str, *words: Word) -> Word:
        self.left[:0] = [(deprel, word, self) for word in words]
        return self

    def before(self, deprel: str, *words: Word) -> Word:
        self.left += [(deprel, word, self) for word in words]
        return self

    def after(self, deprel: str, word: Word, head: Word | None = None) -> Word:
        self.right.append((deprel, word, head or self))
        return self

    def in_order(self, deprel: str = "root", head: Word | None = None) -> Iterable[Child]:
        for child in self.left:
            yield from child[1].in_order(child[0], child[2])
        yield deprel, self, head
        for child in self.right:
            yield from child[1].in_order(child[0], child[2])


Child = tuple[str, Word, Word | None]


def conllu(root: Word) -> str:
    """The lines of a sentence."""
    children = list(root.in_order())
    at = {id(word): n for n, (_, word, _) in enumerate(children, 1)}
    lines = []
    for n, (deprel, word, head) in enumerate(children, 1):
        form = word.form
        if form == "a" and n < len(children) and children[n][1].form[0] in "aeiou":
            form = "an"
        if not any(c[1].upos != "PUNCT" for c in children[: n - 1]) and form[0].isalpha():
            form = form[0].upper() + form[1:] if word.xpos != "ADD" else form
        said = [str(n), form, "_", word.upos, word.xpos, "_", str(at[id(head)] if head else 0)]
        lines.append("\t".join([*said, deprel, "_", "_"]))
    return "\n".join(lines) + "\n\n"


@dataclass(frozen=True)
class Verb:
    base: str
    third: str
    past: str
    participle: str
    ing: str


class Vocabulary:
    """The nouns, adjectives and verbs of a treebank that are not among the words left out, with
    their forms, and verbs with the prepositions that follow them."""

    def __init__(self, treebank: str, left_out: set[str], third: Callable[[str], str]):
        forms: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        objects: Counter[str] = Counter()
        phrases: Counter[tuple[str, str]] = Counter()
        uses: Counter[str] = Counter()
        for sentence in treebank.strip("\n").split("\n\n"):
            lines = [line.split("\t") for line in sentence.split("\n") if line[0] != "#"]
            rows = {row[ID]: row for row in lines}
            for row in lines:
                if row[FORM].isalpha() and row[FORM].islower() and len(row[FORM]) > 2:
                    forms[row[LEMMA], row[XPOS]][row[FORM]] += 1
                head = rows.get(row[HEAD])
                if head and head[UPOS] == "VERB":
                    objects[head[LEMMA]] += row[DEPREL] == "obj"
                above = rows.get(head[HEAD]) if head else None
                if row[DEPREL] == "case" and head and head[DEPREL] == "obl" and above:
                    phrases[above[LEMMA], row[FORM]] += above[UPOS] == "VERB"
                uses[row[LEMMA]] += row[UPOS] == "VERB"

        def form(lemma: str, xpos: str) -> str:
            found = forms.get((lemma, xpos))
            return found.most_common(1)[0][0] if found else ""

        def free(*words: str) -> bool:
            return all(words) and not left_out & set(words)

        def nouns(xpos: str) -> list[str]:
            lemmas = [n for n, x in forms if x == xpos and sum(forms[n, x].values()) > 2]
            return sorted(form(n, xpos) for n in lemmas if free(n, form(n, xpos)))

        self.singular, self.plural = nouns("NN"), nouns("NNS")
        self.adjectives = nouns("JJ")
        verbs = {}
        for lemma, n in uses.items():
            rest = [form(lemma, xpos) for xpos in ("VBD", "VBN", "VBG")]
            if n > 3 and lemma not in ("be", "have", "do") and free(lemma, third(lemma), *rest):
                verbs[lemma] = Verb(lemma, third(lemma), *rest)
        self.verbs = verbs
        self.transitive = sorted(v for v in verbs if objects[v] > uses[v] / 3)
        # a form that is a noun too: plans, reports, claims
        self.nounlike = [v for v in self.transitive if forms.get((v, "NN"))]
        self.phrases = sorted(
            (v, p)
            for (v, p), n in phrases.items()
            if v in verbs and n > 2 and objects[v] < uses[v] / 2 and p in PREPOSITIONS
        )


def punct(form: str, xpos: str = "") -> Word:
    return Word(form, "PUNCT", xpos or form)


def comma() -> Word:
    return punct(",")


def adposition(form: str) -> Word:
    return Word(form, "ADP", "IN")


def marker(form: str) -> tuple[str, Word]:
    if form == "when":
        return "advmod", Word(form, "ADV", "WRB")
    return "mark", Word(form, "SCONJ", "IN")
