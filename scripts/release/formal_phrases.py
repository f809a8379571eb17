"""Noun phrases, sums, times and clauses of formal English: for formal_english.py."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from formal_words import PREPOSITIONS, Verb, Vocabulary, Word, adposition, comma

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Saturday", "Sunday")
MONTHS = ("January", "February", "April", "July", "August", "September", "October", "November")
TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "President", "Senator", "Professor", "Judge")
FORMS = ("Ltd.", "Inc.", "Corp.", "Co.", "LLC", "Group", "Bank", "Systems", "Airlines", "Press")
ROLES = ("spokesman", "lawyer", "analyst", "chairman", "owner", "editor", "nurse", "farmer")
ROLES += ("official", "student", "partner", "driver", "secretary", "senator", "witness", "expert")
PERSONS = {"I": "me", "we": "us", "you": "you", "he": "him", "she": "her", "they": "them"}
POSSESSIVE = ("my", "our", "your", "his", "her", "their", "its")


class Phrases:
    """Draws phrases and clauses. names: given names, surnames, places."""

    def __init__(self, words: Vocabulary, names: tuple[list[str], ...], seed: int):
        self.words, self.draw = words, random.Random(seed)
        self.given, self.surnames, self.places = names

    def maybe(self, chance: float) -> bool:
        return self.draw.random() < chance

    def one(self, *choices: Callable[[], Word]) -> Word:
        return self.draw.choice(choices)()

    # ---- Noun phrases ----------------------------------------------------------------------------

    def proper(self, names: Iterable[str]) -> Word:
        return Word(self.draw.choice(list(names)), "PROPN", "NNP")

    def person(self) -> Word:
        if self.maybe(0.25):
            return self.proper(self.surnames).before("nmod:desc", self.proper(TITLES))
        name = self.proper(self.given)
        if self.maybe(0.3):
            name.before("nmod:desc", self.proper(TITLES))
        elif self.maybe(0.15):
            name.before("nmod:desc", Word(self.draw.choice(ROLES), "NOUN", "NN"))
        return name.after("flat", self.proper(self.surnames)) if self.maybe(0.8) else name

    def firm(self) -> Word:
        firm = self.proper(FORMS)
        for _ in range(self.draw.choice((1, 1, 2))):
            firm.before("compound", self.proper(self.surnames + self.places))
        return self.in_place(firm) if self.maybe(0.3) else firm

    def in_place(self, word: Word, deprel: str = "nmod") -> Word:
        return word.after(
            deprel, self.place().first("case", adposition(self.draw.choice(("in", "of"))))
        )

    def place(self) -> Word:
        return self.proper(self.places)

    def determined(self, noun: Word) -> Word:
        """With an article or pronoun and maybe an adjective."""
        if self.maybe(0.3):
            noun.first("amod", Word(self.draw.choice(self.words.adjectives), "ADJ", "JJ"))
        if self.maybe(0.3):
            return noun.first("nmod:poss", Word(self.draw.choice(POSSESSIVE), "PRON", "PRP$"))
        articles = (
            ("the", "these", "some") if noun.plural else ("the", "the", "a", "this", "another")
        )
        return noun.first("det", Word(self.draw.choice(articles), "DET", "DT"))

    def thing(self, plural: bool | None = None) -> Word:
        plural = self.maybe(0.4) if plural is None else plural
        forms = self.words.plural if plural else self.words.singular
        noun = Word(self.draw.choice(forms), "NOUN", "NNS" if plural else "NN", plural=plural)
        if self.maybe(0.12):
            noun.before("compound", Word(self.draw.choice(self.words.singular), "NOUN", "NN"))
        if not (plural and self.maybe(0.25)):
            self.determined(noun)
        if self.maybe(0.15):
            other = self.one(self.thing, self.place)
            noun.after("nmod", other.first("case", adposition(self.draw.choice(PREPOSITIONS[:8]))))
        return noun

    def role(self) -> Word:
        """*our lawyer*, maybe with a name behind it."""
        noun = self.determined(Word(self.draw.choice(ROLES), "NOUN", "NN"))
        if noun.left[0][0] == "nmod:poss" and self.maybe(0.5):
            name = self.proper(self.given)
            noun.after("appos", name.after("flat", self.proper(self.surnames)))
        return noun

    def pronoun(self, subject: bool = True) -> Word:
        form = self.draw.choice(list(PERSONS))
        return Word(
            form if subject else PERSONS[form], "PRON", "PRP", plural=form not in ("he", "she")
        )

    def sum(self) -> Word:
        """*about $1,200*, *£1.5 million a year*."""
        money = Word(self.draw.choice("$$$£€"), "SYM", "$")
        if self.maybe(0.4):
            about = self.draw.choice(("about", "nearly", "almost", "roughly", "over", "only"))
            money.before("advmod", Word(about, "ADV", "RB"))
        if self.maybe(0.3):
            scale = Word(self.draw.choice(("million", "billion")), "NUM", "CD")
            money.after("nummod", scale.before("compound", self.number(decimal=True)))
        else:
            money.after("nummod", self.number())
        if self.maybe(0.2):
            unit = Word(self.draw.choice(("year", "day", "hour", "night")), "NOUN", "NN")
            money.after("nmod:unmarked", unit.first("det", Word("a", "DET", "DT")))
        return money

    def number(self, decimal: bool = False) -> Word:
        n = self.draw.choice((self.draw.randrange(2, 99), self.draw.randrange(100, 90_000)))
        return Word(f"{n / 10:.1f}" if decimal else f"{n:,}", "NUM", "CD")

    def percent(self) -> Word:
        return Word("%", "SYM", "NN").before("nummod", self.number(decimal=self.maybe(0.5)))

    def time(self) -> Word:
        """Below a verb: *on Monday*, *in 1998*, *last year*."""
        kind = self.draw.randrange(5)
        if kind == 0:
            return self.proper(DAYS).first("case", adposition("on"))
        if kind == 1:
            year = Word(str(self.draw.randrange(1950, 2026)), "NUM", "CD")
            return year.first("case", adposition("in"))
        if kind == 2:
            return self.proper(MONTHS).first("case", adposition("in"))
        noun = Word(self.draw.choice(("year", "night", "summer", "autumn")), "NOUN", "NN")
        return noun.first("amod", Word(self.draw.choice(("last", "next")), "ADJ", "JJ"))

    def timed(self, verb: Word) -> Word:
        time = self.time()
        marked = time.left[0][0] == "case"
        return verb.after("obl" if marked else "obl:unmarked", time)

    # ---- Clauses ---------------------------------------------------------------------------------

    def subject(self) -> Word:
        return self.one(self.thing, self.thing, self.role, self.person, self.firm, self.pronoun)

    def inflected(self, verb: Verb, plural: bool, passive: bool = False) -> Word:
        """The verb with its auxiliaries; plural: of its subject."""
        kind = self.draw.randrange(8)
        have, be = ("have", "are") if plural else ("has", "is")
        was, do = ("were", "do") if plural else ("was", "does")
        present = (verb.base, "VBP") if plural else (verb.third, "VBZ")
        modal = self.draw.choice(("will", "would", "can", "could", "may", "should", "must"))
        auxiliaries: list[tuple[str, str]] = []
        form, xpos = (verb.past, "VBD") if kind < 3 else present
        if passive:
            form, xpos = verb.participle, "VBN"
            auxiliaries = [[(was, "VBD")], [(be, "VBP" if plural else "VBZ")]][kind % 2]
            if kind in (4, 5):
                auxiliaries = [(modal, "MD"), ("be", "VB")]
            elif kind == 6:
                auxiliaries = [(have, "VBP" if plural else "VBZ"), ("been", "VBN")]
        elif kind == 5:
            form, xpos, auxiliaries = verb.base, "VB", [(modal, "MD")]
        elif kind == 6:
            perfect = self.draw.choice(((have, "VBP" if plural else "VBZ"), ("had", "VBD")))
            form, xpos, auxiliaries = verb.participle, "VBN", [perfect]
            if self.maybe(0.3):
                form, xpos, auxiliaries = verb.ing, "VBG", [perfect, ("been", "VBN")]
        elif kind == 7:
            support = self.draw.choice(((do, "VBP" if plural else "VBZ"), ("did", "VBD")))
            form, xpos, auxiliaries = verb.base, "VB", [support]
        word = Word(form, "VERB", xpos)
        for n, (auxiliary, tag) in enumerate(auxiliaries, 1):
            last = passive and n == len(auxiliaries)
            word.before("aux:pass" if last else "aux", Word(auxiliary, "AUX", tag))
            if n == 1 and ((kind == 7 and not passive) or self.maybe(0.1)):
                short = auxiliary not in ("may", "been") and self.maybe(0.5)
                word.left[-1][1].form = (
                    {"can": "ca", "will": "wo"}.get(auxiliary, auxiliary) if short else auxiliary
                )
                word.before("advmod", Word("n't" if short else "not", "PART", "RB"))
        return word

    def verb(self) -> Verb:
        choice = self.words.nounlike if self.maybe(0.4) else self.words.transitive
        return self.words.verbs[self.draw.choice(choice)]

    def predicate(self, plural: bool) -> tuple[Word, str]:
        """A verb with what follows it, and the relation of its subject."""
        kind = self.draw.random()
        if kind < 0.55:
            verb = self.inflected(self.verb(), plural)
            return verb.after("obj", self.one(self.thing, self.thing, self.person)), "nsubj"
        if kind < 0.75:
            lemma, preposition = self.draw.choice(self.words.phrases)
            verb = self.inflected(self.words.verbs[lemma], plural)
            other = self.one(self.thing, self.thing, self.place)
            return verb.after("obl", other.first("case", adposition(preposition))), "nsubj"
        if kind < 0.88:
            verb = self.inflected(self.verb(), plural, passive=True)
            if self.maybe(0.4):
                agent = self.one(self.thing, self.person, self.firm)
                verb.after("obl:agent", agent.first("case", adposition("by")))
            return verb, "nsubj:pass"
        be = self.draw.choice(
            (("are", "VBP"), ("were", "VBD")) if plural else (("is", "VBZ"), ("was", "VBD"))
        )
        what = Word(self.draw.choice(self.words.adjectives), "ADJ", "JJ")
        return what.before("cop", Word(be[0], "AUX", be[1])), "nsubj"

    def clause(self, subject: Word | None = None) -> Word:
        subject = subject or self.subject()
        verb, relation = self.predicate(subject.plural)
        if subject.form == "I" and verb.left and verb.left[0][1].form in ("are", "were"):
            verb.left[0][1].form = {"are": "am", "were": "was"}[verb.left[0][1].form]
        verb.first(relation, subject)
        return self.timed(verb) if self.maybe(0.25) else verb

    def relative(self, noun: Word, human: bool, last: bool = False) -> Word:
        """A noun with a relative clause between commas. last: no comma follows."""
        kind = self.draw.random()
        who = Word("who" if human else "which", "PRON", "WP" if human else "WDT")
        if kind < 0.4:
            verb, relation = self.predicate(noun.plural)
            verb.first(relation, who)
        elif kind < 0.55:
            owned = self.thing(False)
            owned.left = [child for child in owned.left if child[0] in ("amod", "compound")]
            verb = self.clause(owned.first("nmod:poss", Word("whose", "PRON", "WP$")))
        elif kind < 0.75 or human:
            subject = self.subject()
            verb = self.inflected(self.verb(), subject.plural).first("nsubj", subject)
            verb.first("obj", Word("whom", "PRON", "WP") if human else who)
        else:
            verb = self.with_preposition(who)
        verb.first("punct", comma())
        noun.after("acl:relcl", verb)
        return noun if last else noun.after("punct", comma())

    def with_preposition(self, which: Word) -> Word:
        """*which we have all been hoping for*, *for which she hopes*."""
        lemma, form = self.draw.choice(self.words.phrases)
        subject = self.one(self.pronoun, self.thing)
        verb = self.inflected(self.words.verbs[lemma], subject.plural)
        if subject.plural and self.maybe(0.3):
            at = 1 if verb.left else 0
            verb.left.insert(
                at, ("advmod", Word(self.draw.choice(("all", "both")), "DET", "DT"), verb)
            )
        verb.first("nsubj", subject).first("obl", which)
        if self.maybe(0.4):
            which.first("case", adposition(form))
            return verb
        return verb.after("case", adposition(form), which)

    def described(self, last: bool = False) -> Word:
        """A noun phrase with a clause or an apposition between commas."""
        kind = self.draw.random()
        if kind < 0.45:
            return self.relative(self.one(self.person, self.role), True, last)
        if kind < 0.75:
            return self.relative(self.one(self.thing, self.thing, self.firm), False, last)
        whole, other = self.person(), self.role()
        other.right = []
        if self.maybe(0.5):
            whole, other = other, whole
        elif self.maybe(0.5):
            other = self.in_place(other)
        whole.after("appos", other.first("punct", comma()))
        return whole if last else whole.after("punct", comma())
