"""Sentences of letters and news with their trees, drawn from a small grammar.

Web text has few of them: *"We are late," said Dr. Ada Marsh, who owns the ferry.* Here are
quotations with the subject behind the verb, relative clauses between commas, also within
that-clauses, appositions, prices, clauses before the main clause and clauses behind a semicolon.
Nouns, adjectives and verbs are those of a treebank, names those of lists. Trees and tags follow
UD English EWT; lemmas and features are not given.
"""

from __future__ import annotations

from formal_phrases import Phrases
from formal_words import Vocabulary, Word, adposition, comma, conllu, marker, punct
from third_person import third

SAY = (("say", "said"), ("add", "added"), ("explain", "explained"), ("claim", "claimed"))
SAY += (("report", "reported"), ("reply", "replied"), ("note", "noted"), ("argue", "argued"))
SAY_THAT = (("say", "said"), ("believe", "believed"), ("know", "knew"), ("report", "reported"))
SAY_THAT += (("show", "showed"), ("hope", "hoped"), ("think", "thought"), ("add", "added"))
TELL = (("tell", "told"), ("inform", "informed"), ("assure", "assured"), ("remind", "reminded"))
# What takes a sum as its object: most of these forms are nouns elsewhere.
AMOUNT = ("total", "average", "fetch", "exceed", "earn", "owe", "spend", "demand", "offer", "net")
SUMS = ("rent", "retail", "trade", "go", "list")  # for a sum
BEFORE = ("if", "although", "because", "while", "since", "after", "unless", "before", "when", "as")


def formal_english(
    treebank: str, names: tuple[list[str], ...], left_out: set[str], n: int, seed: int
) -> str:
    """n sentences as CoNLL-U. treebank: CoNLL-U too, for its words; names: given names, surnames,
    places; left_out: words that are not drawn, so that a text made of them can judge the models."""
    free = tuple([name for name in some if name not in left_out] for some in names)
    grammar = Grammar(Vocabulary(treebank, left_out, third), free, seed)
    return "".join(conllu(grammar.sentence()) for _ in range(n))


class Grammar(Phrases):
    """Draws sentences."""

    def quotation(self) -> Word:
        said = Word(self.draw.choice(SAY)[1], "VERB", "VBD")
        quote = self.clause() if self.maybe(0.8) else self.fronted()
        marks = self.draw.choice((('"', '"'), ("\u201c", "\u201d"), ('"', '"'), ("", "")))
        place = self.draw.random()
        if marks[0]:
            quote.first("punct", punct(marks[0], "``"))
        if place < 0.2:
            said.before("nsubj", self.one(self.person, self.role, self.pronoun))
            quote.first("punct", comma())
            said.after("ccomp", quote)
            quote.after("punct", punct("."))
            return quote_end(said, quote, marks[1])
        end = self.draw.choice(",,,!?" if marks[0] else ",")
        quote.after("punct", punct(end, "," if end == "," else "."))
        quote_end(said, quote, marks[1])
        said.before("ccomp", quote)
        speaker = self.one(self.person, self.person, self.role, self.firm)
        if marks[0] and place < 0.75:
            said.after("nsubj", self.described(True) if self.maybe(0.5) else speaker)
        else:
            said.before("nsubj", self.described() if self.maybe(0.3) else speaker)
            said = self.timed(said) if self.maybe(0.3) else said
        return said.after("punct", punct("."))

    def inserted(self) -> Word:
        """*Prices, he said, fell.*"""
        verb = self.clause(self.thing())
        said = Word("said", "VERB", "VBD").before("nsubj", self.one(self.pronoun, self.person))
        said.first("punct", comma()).after("punct", comma())
        at = 1 + max(n for n, child in enumerate(verb.left) if child[0].startswith("nsubj"))
        verb.left.insert(at, ("parataxis", said, verb))
        return verb.after("punct", punct("."))

    def that_clause(self) -> Word:
        tells = self.maybe(0.5)
        told = Word(self.draw.choice(TELL if tells else SAY_THAT)[1], "VERB", "VBD")
        told.before("nsubj", self.one(self.person, self.role, self.pronoun, self.firm))
        if tells:
            told.after("iobj", self.one(lambda: self.pronoun(False), self.person, self.role))
        if self.maybe(0.2):
            self.timed(told)
        inner = self.clause(self.described() if self.maybe(0.6) else None)
        if self.maybe(0.85):
            inner.first("mark", Word("that", "SCONJ", "IN"))
        return told.after("ccomp", inner)

    def price(self) -> Word:
        things = self.thing(self.maybe(0.7))
        amounts = [self.words.verbs[v] for v in AMOUNT if v in self.words.verbs]
        verb = self.inflected(self.draw.choice(amounts), things.plural)
        if self.maybe(0.3):
            sold = [self.words.verbs[v] for v in SUMS if v in self.words.verbs]
            verb = self.inflected(self.draw.choice(sold), things.plural)
            verb.after("obl", self.sum().first("case", adposition("for")))
        elif self.maybe(0.2):
            verb = self.inflected(self.verb(), things.plural).after("obj", self.thing())
            less = Word(self.draw.choice(("less", "more")), "ADJ", "JJR")
            less.before("obl:unmarked", self.percent())
            verb.after("obl", less.first("case", adposition("for")))
        else:
            verb.after("obj", self.sum())
        if things.plural and self.maybe(0.5):
            verb.after("obl:unmarked", Word("each", "DET", "DT"))
        return verb.first("nsubj", things)

    def fronted(self) -> Word:
        """A clause, or *according to*, before the main clause."""
        main = self.one(self.clause, self.clause, lambda: self.clause(self.described()), self.order)
        if self.maybe(0.1):
            source = self.one(self.person, self.role, self.firm)
            source.first("case", Word("according", "VERB", "VBG").after("fixed", adposition("to")))
            return main.first("obl", source.after("punct", comma()))
        before = self.clause()
        return main.first(
            "advcl", before.first(*marker(self.draw.choice(BEFORE))).after("punct", comma())
        )

    def order(self) -> Word:
        """*see www.marsh.example*, *please write to ada@marsh.example*."""
        site = (
            f"{self.draw.choice(self.surnames).lower()}.{self.draw.choice(('com', 'org', 'net'))}"
        )
        site = self.draw.choice((site, f"{self.draw.choice(self.words.plural)}-{site}"))
        where = self.draw.choice(
            (f"www.{site}", f"http://{site}/{self.draw.choice(self.words.plural)}")
        )
        verb = Word(self.draw.choice(("visit", "see", "try", "read")), "VERB", "VB")
        if self.maybe(0.6):
            verb.after("obj", Word(where, "PROPN", "ADD"))
        elif self.maybe(0.5):
            mail = f"{self.draw.choice((*self.words.plural, *self.given)).lower()}@{site}"
            verb = Word(self.draw.choice(("reply", "turn", "go")), "VERB", "VB")
            verb.after("obl", Word(mail, "PROPN", "ADD").first("case", adposition("to")))
        else:
            verb = Word(self.verb().base, "VERB", "VB").after("obj", self.thing())
        return verb.first("discourse", Word("please", "INTJ", "UH")) if self.maybe(0.2) else verb

    def sentence(self) -> Word:
        kind = self.draw.random()
        if kind < 0.25:
            return self.quotation()
        if kind < 0.29:
            return self.inserted()
        if kind < 0.5:
            whole = self.that_clause()
        elif kind < 0.64:
            whole = self.price()
        elif kind < 0.82:
            whole = self.fronted()
        else:
            whole = self.clause(self.described())
        more = self.draw.random()
        if more < 0.2:
            other = self.one(
                self.clause, self.clause, self.order, lambda: self.clause(self.described())
            )
            whole.after("parataxis", other.first("punct", punct(";", ",")))
            if self.maybe(0.3):
                either = self.order().first(
                    "cc", Word(self.draw.choice(("and", "or")), "CCONJ", "CC")
                )
                other.after("conj", either)
        elif more < 0.35:
            other = self.one(self.clause, self.price, self.that_clause)
            other.first("cc", Word(self.draw.choice(("and", "but")), "CCONJ", "CC"))
            whole.after("conj", other.first("punct", comma()))
        return whole.after("punct", punct("."))


def quote_end(whole: Word, quote: Word, mark: str) -> Word:
    if mark:
        quote.after("punct", punct(mark, "''"))
    return whole
