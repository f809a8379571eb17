"""Sentences of a treebank again, in the third person: *I live here* as *Ada Marsh lives here*.

People write of themselves on the web. There a verb in the present hardly ever follows a name, and a
form that is a noun elsewhere (*lives*, *plans*, *calls*) is taken for one. A copy has another
subject and another form of the verb; only words, lemmas, tags and features are in it, no tree.
"""

from __future__ import annotations

import random

SUBJECTS = ("i", "we", "you", "they")
MOST_WORDS = 30
NOUNS = (
    *("sister", "mother", "father", "boss", "teacher", "doctor", "neighbour", "cat", "dog"),
    *("friend", "wife", "husband", "son", "daughter", "manager", "company", "team", "owner"),
    *("dentist", "cousin", "uncle", "aunt", "coach", "landlord", "dealer", "shop", "hotel"),
    *("school", "government", "car", "phone"),
)
BEFORE = {"the": ("DET", "DT"), **dict.fromkeys(("my", "our", "his", "her"), ("PRON", "PRP$"))}
FINITE = "Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin"
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL = range(8)
Row = list[str]


def third_person(text: str, given: list[str], surnames: list[str], firms: list[str]) -> str:
    """Copies of the sentences of a CoNLL-U file that have such a subject."""
    draw, copies = random.Random(1), []
    for sentence in text.strip("\n").split("\n\n"):
        rows = [line.split("\t") for line in sentence.split("\n") if line[0] != "#"]
        found = subject_and_verb(rows)
        if found:
            subject, verb = found
            new = []
            for row in rows:
                bare = [*row[:HEAD], *["_"] * 4]
                if row is subject:
                    new += subject_rows(draw, row[ID] == "1", given, surnames, firms)
                elif row is verb:
                    new.append(
                        [bare[ID], third(row[FORM]), *bare[2:4], "VBZ", FINITE, *bare[HEAD:]]
                    )
                else:
                    new.append(bare)
            lines = ["\t".join([str(n), *row[1:]]) for n, row in enumerate(new, 1)]
            copies.append("\n".join(lines) + "\n\n")
    return "".join(copies)


def subject_and_verb(rows: list[Row]) -> tuple[Row, Row] | None:
    """A verb in the present that has the form of its lemma, and its subject, a pronoun."""
    if len(rows) > MOST_WORDS or not all(row[ID].isdigit() for row in rows):
        return None
    for verb in rows:
        plain = verb[FORM] == verb[LEMMA] and verb[FORM].islower()
        if plain and (verb[UPOS], verb[XPOS]) == ("VERB", "VBP"):
            below = [row for row in rows if row[HEAD] == verb[ID]]
            subjects = [
                row
                for row in below
                if row[DEPREL] == "nsubj"
                and row[FORM].lower() in SUBJECTS
                and int(row[ID]) < int(verb[ID])
            ]
            if subjects and not any(row[DEPREL] == "aux" for row in below):
                return subjects[0], verb
    return None


def subject_rows(
    draw: random.Random, first: bool, given: list[str], surnames: list[str], firms: list[str]
) -> list[Row]:
    """A name, a pronoun, or a noun with an article or pronoun. first: it begins the sentence."""
    name = "PROPN", "NNP"
    kind = draw.random()
    if kind < 0.3:
        words = [(draw.choice(given), *name)]
    elif kind < 0.55:
        words = [(draw.choice(given), *name), (draw.choice(surnames), *name)]
    elif kind < 0.67:
        words = [(draw.choice(firms), *name)]
    elif kind < 0.87:
        before = draw.choice(list(BEFORE))
        words = [(before, *BEFORE[before]), (draw.choice(NOUNS), "NOUN", "NN")]
    else:
        words = [(draw.choice(["he", "she"]), "PRON", "PRP")]
    return [
        ["", form.capitalize() if first and not at and form.islower() else form, form, upos, xpos]
        + ["_"] * 5
        for at, (form, upos, xpos) in enumerate(words)
    ]


def third(verb: str) -> str:
    """The form of the third person."""
    if verb in ("have", "go", "do"):
        return {"have": "has", "go": "goes", "do": "does"}[verb]
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"
