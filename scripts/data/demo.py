"""The embedded corpus, data/demo: sentences from a small grammar and lexicon of our own.

It is synthetic: made so that the demo and the tests need nothing else, not to measure accuracy.
Every sentence has UPOS, lemma, heads, labels and entities. Names are ambiguous on purpose (Halden
is a person, a place or a firm by its context), some words are nouns and verbs, and about one
sentence in five has a crossing arc (an extraposed relative clause or a fronted question word).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

GIVEN = [
    "Ada", "Bruno", "Celia", "Dorian", "Edda", "Felix", "Greta", "Hugo", "Ines", "Jonas",
    "Kaja", "Leon", "Mira", "Nils", "Olga", "Pavel",
]  # fmt: skip
NAMES = [
    "Halden", "Verity", "Orrin", "Castell", "Marlow", "Tamsin", "Brandt", "Sorrel", "Quill",
    "Lindqvist", "Farrow", "Penrose",
]  # fmt: skip
PLACE_HEADS = ["Port", "Lake", "Mount", "Cape", "New"]
FIRMS = ["Bank", "Institute", "Press", "Railways", "College", "Union", "Theatre"]
PLACES = ["Elmstadt", "Korvany", "Sundholm", "Ravello", "Tirana", "Braga", "Oslo", "Lima"]
NOUNS = [
    "letter", "book", "plan", "boat", "garden", "bridge", "song", "report", "engine", "lamp",
    "child", "teacher", "sailor", "farmer", "doctor", "cat", "horse", "watch", "light", "train",
    "story", "map", "window", "market",
]  # fmt: skip
ADJECTIVES = [
    "old", "small", "green", "quiet", "bright", "heavy", "famous", "early", "broken", "honest",
]  # fmt: skip
ADVERBS = ["yesterday", "often", "slowly", "again", "today", "quickly", "never"]
PREPOSITIONS = ["in", "near", "with", "from", "for", "behind"]
INTRANSITIVE = {
    "arrives": "arrive", "sleeps": "sleep", "sings": "sing", "waits": "wait", "left": "leave",
}  # fmt: skip
TRANSITIVE = {
    "sees": "see", "reads": "read", "paints": "paint", "sold": "sell", "found": "find",
    "plans": "plan", "watches": "watch", "lights": "light", "visited": "visit", "joined": "join",
}  # fmt: skip
RELATIVE = [("wrote", "write"), ("lost", "lose"), ("carries", "carry")]


@dataclass
class Word:
    """A word with its dependents to the left and to the right; entity is B-X, I-X or O."""

    form: str
    upos: str
    deprel: str = "dep"
    lemma: str = ""
    entity: str = "O"
    left: list[Word] = field(default_factory=list)
    right: list[Word] = field(default_factory=list)
    late: list[Word] = field(default_factory=list)  # put at the end of the clause: crossing arcs


class Grammar:
    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def pick(self, options: list[str]) -> str:
        return self.random.choice(options)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def name(self, kind: str) -> Word:
        """A proper name; its first word is the head, as in UD."""
        if kind == "PER":
            words = [self.pick(GIVEN)] + ([self.pick(NAMES)] if self.chance(0.6) else [])
            if self.chance(0.2):
                words = ["Dr.", self.pick(NAMES)]
        elif kind == "LOC":
            words = [self.pick(PLACES)] if self.chance(0.5) else [self.pick(NAMES)]
            if self.chance(0.4):
                words = [self.pick(PLACE_HEADS), self.pick(NAMES)]
        else:
            words = [self.pick(NAMES + PLACES), self.pick(FIRMS)]
            if self.chance(0.3):
                words = [self.pick(NAMES), "&", self.pick(NAMES)]
        head = Word(words[0], "PROPN", "nsubj", words[0], f"B-{kind}")
        for w in words[1:]:
            upos, label = ("SYM", "cc") if w == "&" else ("PROPN", "flat")
            head.right.append(Word(w, upos, label, w, f"I-{kind}"))
        return head

    def noun_phrase(self, deprel: str, depth: int = 0) -> Word:
        if self.chance(0.4):
            kind = self.random.choices(["PER", "LOC", "ORG"], [5, 2, 3])[0]
            head = self.name(kind)
            head.deprel = deprel
            return head
        noun = self.pick(NOUNS)
        head = Word(noun, "NOUN", deprel, noun)
        if self.chance(0.15):
            head.form += "s"
            head.left.append(Word(self.pick(["two", "three", "40", "7"]), "NUM", "nummod"))
        else:
            head.left.append(Word(self.pick(["the", "a", "every", "this"]), "DET", "det"))
        if self.chance(0.35):
            adjective = self.pick(ADJECTIVES)
            head.left.append(Word(adjective, "ADJ", "amod", adjective))
        if depth < 2 and self.chance(0.2):
            head.right.append(self.prepositional("nmod", depth + 1))
        return head

    def prepositional(self, deprel: str, depth: int = 0) -> Word:
        preposition = self.pick(PREPOSITIONS)
        if preposition in ("in", "near", "from") and self.chance(0.6):
            head = self.name("LOC")
        elif preposition in ("for", "with") and self.chance(0.5):
            head = self.name(self.pick(["ORG", "PER"]))
        else:
            head = self.noun_phrase(deprel, depth)
        head.deprel = deprel
        head.left.insert(0, Word(preposition, "ADP", "case", preposition))
        return head

    def clause(self, deprel: str, depth: int = 0) -> Word:
        subject = self.noun_phrase("nsubj", depth)
        if self.chance(0.6):
            form = self.pick(list(TRANSITIVE))
            verb = Word(form, "VERB", deprel, TRANSITIVE[form])
            verb.right.append(self.noun_phrase("obj", depth))
        else:
            form = self.pick(list(INTRANSITIVE))
            verb = Word(form, "VERB", deprel, INTRANSITIVE[form])
        verb.left.append(subject)
        if self.chance(0.3):
            adverb = self.pick(ADVERBS)
            verb.right.append(Word(adverb, "ADV", "advmod", adverb))
        if self.chance(0.35):
            verb.right.append(self.prepositional("obl", depth))
        if depth == 0 and subject.upos == "NOUN" and self.chance(0.22):
            relative = Word(self.pick(["that", "which"]), "PRON", "obj")
            form, lemma = self.random.choice(RELATIVE)
            inner = Word(form, "VERB", "acl:relcl", lemma)
            inner.left += [relative, self.name("PER")]
            subject.late.append(inner)  # A letter arrived yesterday that Ada wrote.
        return verb

    def sentence(self) -> Word:
        if self.chance(0.08):  # What does Ada say that Leon found? "What" belongs to "found".
            root = Word("say", "VERB", "root", "say")
            inner = Word("found", "VERB", "ccomp", "find")
            inner.left += [Word("that", "SCONJ", "mark", "that"), self.name("PER")]
            root.left += [Word("does", "AUX", "aux", "do"), self.name("PER")]
            root.right += [inner, Word("?", "PUNCT", "punct", "?")]
            inner.late.append(Word("what", "PRON", "obj", "what"))
            return root
        root = self.clause("root")
        if self.chance(0.2):
            second = self.clause("conj", 1)
            second.left.insert(0, Word("and", "CCONJ", "cc", "and"))
            root.right.append(second)
        root.right.append(Word(".", "PUNCT", "punct", "."))
        return root


def order(word: Word, heads: list[tuple[Word, Word | None]], head: Word | None) -> list[Word]:
    """The words of a subtree in order; records who depends on whom."""
    heads.append((word, head))
    out: list[Word] = []
    for child in word.left:
        out += order(child, heads, word)
    out.append(word)
    for child in word.right:
        out += order(child, heads, word)
    return out


def linearise(root: Word) -> tuple[list[Word], list[tuple[Word, Word | None]]]:
    """Words in order with late dependents moved: question words first, clauses before the stop."""
    heads: list[tuple[Word, Word | None]] = []
    words = order(root, heads, None)
    for word in list(words):
        for child in word.late:
            moved = order(child, heads, word)
            if child.form == "what":
                words = moved + words
            else:
                words = words[:-1] + moved + words[-1:]
    return words, heads


def render(root: Word, number: int) -> tuple[str, str]:
    """The sentence as CoNLL-U and as word, UPOS and IOB2 columns."""
    words, pairs = linearise(root)
    at = {id(w): n for n, w in enumerate(words, 1)}
    head_of = {id(w): 0 if h is None else at[id(h)] for w, h in pairs}
    first = words[0]
    if first.entity == "O":
        first.form = first.form[0].upper() + first.form[1:]
    text = " ".join(w.form for w in words)
    lines = [f"# sent_id = demo-{number}", f"# text = {text}"]
    columns = []
    for n, w in enumerate(words, 1):
        misc = "_" if w.entity == "O" else f"Entity={w.entity}"
        lemma = w.lemma or w.form.lower()
        row = [str(n), w.form, lemma, w.upos, "_", "_", str(head_of[id(w)]), w.deprel, "_", misc]
        lines.append("\t".join(row))
        columns.append(f"{w.form}\t{w.upos}\t{w.entity}")
    return "\n".join(lines) + "\n\n", "\n".join(columns) + "\n\n"


def write(folder: Path, seed: int = 7) -> None:
    """All files of the corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    grammar, number = Grammar(seed), 0
    for split, size in (("train", 400), ("dev", 60), ("test", 60)):
        rendered = []
        for _ in range(size):
            number += 1
            rendered.append(render(grammar.sentence(), number))
        for n, suffix in enumerate(("conllu", "iob2")):
            path = folder / f"{split}.{suffix}"
            path.write_text("".join(r[n] for r in rendered), encoding="utf-8")
