"""English sentences, tokens and words by rules, in the conventions of UD English EWT.

White space cuts the text into chunks, such as "(don't,", and one regular expression cuts a chunk
into tokens; neighbours play no part, so chunks are remembered. Sentences end between chunks: the
end of one says before which kinds of chunk it closes a sentence. Control characters and zero-width
spaces count as white space.

A line break is white space, unless the author must have meant it: the next line opens with a list
mark, or with a word that is not in lower case and would have fitted on this line (the longest line
of the paragraph, at least 40 characters, gives the width).

A sentence of more than 400 words is cut there, because parsing takes the cube of its length.
"""

# ruff: noqa: RUF001 (quotation marks and dashes are the subject)
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

LONGEST = 400  # chunks of a sentence

_SPACE = r"\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff"
_EMOJI = r"\u2600-\u27bf\U0001f000-\U0001faff"
# Letters, marks and digits of any script: all but punctuation and symbols. The zero-width joiners
# are inside words.
_INNER = (
    rf"[^{_SPACE}{_EMOJI}!-/:-@\[-^`{{-~\u00a1-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4\u00b6-\u00b8"
    r"\u00bb\u00bf\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u2100-\u2bff\u3001-\u303f\uff01-\uff0f]"
)
_LETTER = _INNER.replace("[^", "[^0-9_")

# Compounds are cut at hyphens, but not after these.
_PREFIXES = (
    "anti|arch|co|counter|cross|e|ex|intra|micro|mid|multi|neo|non|over|post|pre|pro|pseudo|psycho|"
    "quasi|re|semi|socio|sub|ultra|un"
)
# Abbreviations keep their full stop, except at the end of a sentence; titles never end one.
_TITLES = (
    "Adm|Attn|Capt|Cmdr|Col|Drs?|Ft|Gen|Gov|Hon|Lt|Maj|Messrs|Mr|Mrs|Ms|Mt|PS|Pres|Prof|Reps?|"
    "Rev|Sens?|Sgt|eg|ie|vs"
)
_ABBREVIATIONS = (
    f"{_TITLES}|Ariz|Assn|Ave|Blvd|Bros|Calif|Co|Conf|Conn|Corp|Dept|Esp|Fla|INC|Inc|Jr|LTD|Ltd|"
    r"Mich|Minn|Okla|Pa|Para|Ph(?:\.D)?|Rd|Sr|St|Tenn|Univ|Va|Wis|al|approx|dept|esp|etc|ext|lbs?|"
    "mins|oz|yrs|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Oct|Nov|Dec|Mon|Tue|Tues|Wed|Thur|Thurs|Fri|Sat|"
    "Sun"
)
_COUNTED = "[Nn]os?|pp?|[Ff]igs?|[Vv]ols?|[Cc]h|[Ss]ec|Art|Eq"  # abbreviations before a number
_NEVER_LAST = re.compile(rf"{_TITLES}|[Ee]\.g|[Ii]\.e|P\.S")
_STARTERS = re.compile(  # capitalised words that open a sentence rather than a name
    "A|After|All|Also|Although|An|And|Another|Any|Are|As|At|Because|Before|Both|"
    "But|By|Can|Could|Did|Do|Does|Each|For|From|Had|Has|Have|He|Her|Here|His|"
    "How|However|I|If|In|Is|It|Its|Let|Many|Maybe|Most|My|No|None|Not|Now|On|"
    "Once|One|Or|Our|Perhaps|Please|She|Should|Since|So|Some|Such|Thank|Thanks|"
    "That|The|Their|Then|There|These|They|This|Those|Though|To|Was|We|Were|What|"
    "When|Where|Which|While|Who|Why|Will|With|Would|Yes|Yet|You|Your"
)
_UNITS = (
    "[ap]m|[AP]M|[ap]\\.m|[bgkmtx]|[KM]|MM|bn|mm|cm|km|kg|lbs?|oz|ft|hrs?|yrs?|mins?|secs?|mph|"
    "[kKmMgG][bB]|[kKmM][wW]h?|[kMG]?[hH]z"
)
_DOMAINS = (
    r"(?i:com|org|net|edu|gov|mil|info|biz|(?:co|ac)\.[a-z]{2})(?:\.[a-z]{2})?|[a-z]{2}(?=/\w)"
)
_FILES = "csv|docx?|exe|gif|html?|jpe?g|js|json|mp[34]|pdf|png|pptx?|py|txt|url|xlsx?|xml|zip"
_URL = r"""[^\s<>"“”()]"""
_URL_END = r"""[^\s<>"“”()'’.,;:!?*\]}]"""

_TOKEN = re.compile(
    rf"""
    (?P<address>
        (?: [A-Za-z]{{2,9}}:// | www\d?\. | mailto: )
        (?: {_URL} | \({_URL}*\) )* (?: {_URL_END} | (?<=\)) )
      | [\w.+%\-]{{1,64}} @ (?:[\w\-]{{1,63}}\.){{0,8}} [\w\-]{{1,63}}
      | (?:[\w\-]{{1,63}}\.){{1,8}} (?:{_DOMAINS}) (?![\w\-]) (?: /{_URL}*{_URL_END} | / )?
    )
  | [\w\#~%!.\-]{{0,64}} \.(?i:{_FILES}) (?!\w) | (?:alt|comp|misc|rec|sci|soc)(?:\.[a-z0-9\-]+)+
  | (?P<face>
        [<>]?[:;=][\-'^]?(?:[)(\]\[DPpOo3|\\]|/(?!/))(?!\w)[)(]* | <3+(?!\d) | \^[_.]*\^ | -_+-
      | \([:;] | [0-9\#*]\ufe0f?\u20e3 | [\U0001f1e6-\U0001f1ff]{{2}}
      | [{_EMOJI}] [\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*
        (?: \u200d [{_EMOJI}] [\ufe0f\U0001f3fb-\U0001f3ff]* )*
    )
    # telephone numbers and post codes, dates, decades, years, ordinals, amounts
  | (?: \+?\d{{1,3}}[\-.] )? \d{{3}}[\-./]\d{{3}}[\-.]\d{{4}} (?!\w)
  | (?:\d{{3}}|\d{{5}}|\d)-\d{{4}} (?![\w\-])
  | \d{{4}}-\d\d-\d\d (?!\w) | \d{{1,2}} (?P<mark>[\-/.]) \d{{1,2}} (?P=mark) (?:\d\d){{1,2}} (?!\w)
  | (?: (?:0?[1-9]|1[0-2]) / [0-3]\d | (?:0\d|1[0-2]) / \d ) (?![\w/])
  | \d+['’]?s(?!\w) | (?<!\w)['’]\d\ds?(?!\w) | \+\d{{1,3}}(?!\w) | \d+(?i:st|nd|rd|th)(?!\w)
  | (?: \d+(?:[.,:]\d+)* | (?<!\w)\.\d+ ) (?= (?:{_UNITS})(?!\w) | [a-z]{{3}} | (?!{_INNER}) )
  | (?P<short>
        (?:{_LETTER}\.)+ {_LETTER} (?!{_INNER}) (?: \.(?:['’]s(?!\w))? )? | [A-Z]\.(?!\.)
      | (?:{_ABBREVIATIONS}) \. (?![.?!a-zA-Z]) | (?:{_COUNTED}) \. (?!\D)
    )
  | (?i: w/o(?:ut)? | [bl]/[ct] | i/[cs] ) (?!\w)
  | (?i: ['’](?:em|n['’]?|til|cause|bout|tis|twas|s|re|ve|ll|m|d) ) (?!{_INNER})
  | @[A-Za-z_](?:[\w.]*\w)? | \#[A-Za-z]\w* | C\+\+ | [CF]\#(?!\w) | [A-Z]{{1,2}}\$
  | [vV]\d+(?:\.\d+)+
  | (?: (?<!-)(?i:{_PREFIXES})-(?={_INNER}) | [A-Z]+&(?=[A-Z]+(?![a-z])) | [a-z]&(?=[a-z](?!\w)) )?
    {_INNER}+ (?: ['’`]{_INNER}+ | \*+{_INNER}+ )* (?: (?<=[sS])['’](?!.) )?
  | (?P<dots> \.\.+ | …\.* ) | (?P<stop> [.?!]+ )
  | -+> | <-+ | '' | ‘’ | ’’ | (?P<run>[\-=_*~\#+<>$,|/\\])(?P=run)+
  | . [\ufe0f\U0001f3fb-\U0001f3ff]*
    """,
    re.VERBOSE | re.DOTALL,
)
CHUNK = re.compile(f"[^{_SPACE}]+")
_LIST_MARK = re.compile(r"[-*•·–]|\(?[0-9]{1,2}[.)]")
_COUNTED_STOP = re.compile(rf"(?:{_COUNTED})\.")
_NUMBERING = re.compile(r"\(?(?:[0-9]{1,3}|[A-Za-z]|[ivx]+)\.\)?")

_CLITIC = re.compile(r"n['’`]t|['’`](?:s|m|d|ll|re|ve)", re.I)
_CLITICS = re.compile(rf"(.+?)((?:{_CLITIC.pattern})+)", re.I)
_CONTRACTED = (
    "can not,gon na,wan na,got ta,out ta,gim me,lem me,du n no,c'm on,'t is,'t was,ai nt,are nt,"
    "ca nt,could nt,did nt,do nt,does nt,had nt,has nt,have nt,is nt,should nt,was nt,were nt,"
    "wo nt,would nt,i m,i ve,you re,they re,you ll,they ll,it ll,he s,she s,that s,there s,here s,"
    "what s,who s,let s"
)
_CUTS = {
    words.replace(" ", ""): list(accumulate(map(len, words.split()), initial=0))
    for words in _CONTRACTED.split(",")
}

# What a chunk opens with; one that opens with none of them goes with the chunk before it.
_LOWER, _UPPER, _STARTER, _DIGIT, _ADDRESS, _OTHER = (1 << i for i in range(6))
_ANY = _LOWER | _UPPER | _DIGIT | _ADDRESS | _OTHER
_NUMBERED = 1 << 6  # a chunk that is no sentence by itself: "2. Next"
_CLOSING = {'"', "'", "''", "”", "’", "’’", ")", "]", "}", "»", ">", ">>", "*"}
EMPTY = "\t_\t_\t_\t_\t_\t_\t_\t"  # the columns between FORM and MISC

_Piece = tuple[int, int, str]  # start and end of a token in its chunk, and its kind


class Token(NamedTuple):
    """A token, text[start:end], and the one or more syntactic words that it stands for."""

    start: int
    end: int
    words: tuple[str, ...]


@dataclass(slots=True)
class _Chunk:
    """What lies between white space, cut into tokens."""

    text: str
    tokens: tuple[tuple[int, int, tuple[str, ...], str], ...]  # the last is FORM to MISC
    opens: int
    closes: int  # the kinds of chunk before which it closes a sentence
    final: _Chunk | None = None  # the same at the end of a sentence, where that changes it
    # the chunk that follows if a sentence ends within this one: "end.Next"
    rest: _Chunk | None = None


_Sentence = list[tuple[int, _Chunk]]  # chunks and where they start


def _words(form: str) -> tuple[str, ...]:
    """The syntactic words of a token: don't is do, n't."""
    cuts = _CUTS.get(form.lower())
    if cuts:
        return tuple(form[a:b] for a, b in pairwise(cuts))
    if form.isalpha() or form[0].isdigit():
        return (form,)
    if form[-1] in "'’" and form[-2:-1] in ("s", "S"):
        return form[:-1], form[-1]
    clitics = _CLITICS.fullmatch(form) if len(form) < 64 else None  # quadratic in the length
    return (clitics[1], *_CLITIC.findall(clitics[2])) if clitics else (form,)


def _opens(forms: list[str], kinds: list[str]) -> int:
    first = forms[0]
    if kinds[0] == "address":
        return _ADDRESS
    if first[0].isupper():
        return _UPPER | (_STARTER if _STARTERS.fullmatch(_words(first)[0]) else 0)
    if first[0].islower():
        return _LOWER
    if first[0].isdigit():
        return _DIGIT
    closing = all(k in ("stop", "face") or f in _CLOSING for f, k in zip(forms, kinds, strict=True))
    return 0 if closing and first != '"' else _OTHER


def _closes(forms: list[str], kinds: list[str]) -> int:
    last = len(forms) - 1
    while last and forms[last] in _CLOSING:
        last -= 1
    form, kind = forms[last], kinds[last]
    kept = _ANY if last == len(forms) - 1 else _ANY - _LOWER  # "Why?" he said
    if kind == "stop":
        return kept
    if kind == "dots":
        return kept & (_UPPER | _ADDRESS)
    if kind == "short" and form[-1] == ".":
        if _COUNTED_STOP.fullmatch(form):
            return kept & ~_DIGIT
        if form == "etc.":
            return kept & (_UPPER | _OTHER)
        return 0 if _NEVER_LAST.fullmatch(form, 0, len(form) - 1) else _STARTER
    if kind == "address":
        return _UPPER | _DIGIT | _ADDRESS
    ornament = len(form) > 3 and form == form[0] * len(form) and not form[0].isalnum()
    return _UPPER if kind == "face" or ornament or forms[-1] in (">", ">>") else 0


def _build(text: str, pieces: list[_Piece], glued: bool = False) -> _Chunk:
    """A chunk, or the part of it that these pieces make; glued: no white space follows it."""
    start, end = pieces[0][0], pieces[-1][1]
    forms, kinds, tokens = [], [], []
    for a, b, kind in pieces:
        form = text[a:b]
        forms.append(form)
        kinds.append(kind)
        space = "SpaceAfter=No|" if glued or b < end else ""
        tokens.append((a - start, b - start, _words(form), form + EMPTY + space))
    closes = _closes(forms, kinds)
    if closes and _NUMBERING.fullmatch(text, start, end):
        closes |= _NUMBERED
    return _Chunk(text[start:end], tuple(tokens), _opens(forms, kinds), closes)


def _ends_within(text: str, piece: _Piece) -> bool:
    """Whether a sentence ends after a token that is followed by another without white space."""
    _, end, kind = piece
    if text[end].isupper():
        return kind in ("stop", "dots")
    return kind == "stop" and text[end].isalpha() and text[end - 1] != "."


def _cut(text: str) -> _Chunk:
    """The tokens of a chunk."""
    if text.isascii() and text.isalpha():  # most are bare words
        return _Chunk(text, ((0, len(text), _words(text), text + EMPTY),), _opens([text], [""]), 0)
    pieces = [(m.start(), m.end(), m.lastgroup or "") for m in _TOKEN.finditer(text)]
    start, end, kind = pieces[-1]
    if text[0] in "'‘" and text[-1] in "'’" and text[start].isalnum():  # a quotation
        pieces[-1:] = [(start, end - 1, kind), (end - 1, end, "")]
    starts = [0]
    if len(pieces) > 2:
        starts += [i for i in range(2, len(pieces)) if _ends_within(text, pieces[i - 1])]
    chunk: _Chunk | None = None
    stop = len(pieces)
    for i in reversed(starts):
        part = _build(text, pieces[i:stop], glued=stop < len(pieces))
        part.rest, chunk, stop = chunk, part, i
    assert chunk is not None
    if kind == "short" and text[-1] == "." and len(starts) == 1:
        chunk.final = _build(text, [*pieces[:-1], (start, end - 1, ""), (end - 1, end, "stop")])
    return chunk


_remembered = lru_cache(1 << 15)(_cut)


def stops(text: str, start: int, end: int) -> list[int]:
    """Where the line breaks of a paragraph end a sentence, and the end of the paragraph."""
    lines = text[start:end].split("\n") if text.find("\n", start, end) >= 0 else []
    lengths = [len(line.rstrip()) for line in lines]
    width = max([40, *lengths])
    stops = []
    for line, length, following in zip(lines, lengths, lines[1:], strict=False):
        start += len(line) + 1
        word = "".join(following.split(maxsplit=1)[:1])
        fits = length + 1 + len(word) <= width
        if word and ((fits and not word[0].islower()) or _LIST_MARK.fullmatch(word)):
            stops.append(start)
    return [*stops, end]


def cut_sentences(text: str, start: int, end: int) -> Iterator[tuple[_Sentence, bool]]:
    """The sentences of a paragraph, text[start:end], and whether each was cut for its length."""
    for stop in stops(text, start, end):
        sentence: _Sentence = []
        closes = 0
        for m in CHUNK.finditer(text, start, stop):
            at, form = m.start(), m.group()
            chunk = _remembered(form) if len(form) < 32 else _cut(form)
            ends = closes & chunk.opens and not (closes & _NUMBERED and len(sentence) == 1)
            if ends or len(sentence) == LONGEST:
                yield _closed(sentence), not ends
                sentence = []
            sentence.append((at, chunk))
            while chunk.rest is not None:
                yield sentence, False
                at += len(chunk.text)
                chunk = chunk.rest
                sentence = [(at, chunk)]
            closes = chunk.closes
        if sentence:
            yield _closed(sentence), False
        start = stop


def _closed(sentence: _Sentence) -> _Sentence:
    at, chunk = sentence[-1]
    if chunk.final is not None:
        sentence[-1] = at, chunk.final
    return sentence


def conllu_lines(sentence: _Sentence, offset: int) -> Iterator[str]:
    """The lines of a sentence, from `# text` to the blank line at its end."""
    yield f"# text = {' '.join([chunk.text for _, chunk in sentence])}\n"
    n = 1
    for at, chunk in sentence:
        at += offset
        for start, end, words, line in chunk.tokens:
            where = f"{line}start_char={at + start}|end_char={at + end}\n"
            if len(words) == 1:
                yield f"{n}\t{where}"
                n += 1
                continue
            yield f"{n}-{n + len(words) - 1}\t{where}"
            for word in words:
                yield f"{n}\t{word}{EMPTY}_\n"
                n += 1
    yield "\n"


def marks(text: str, start: int, end: int) -> np.ndarray:
    """What the rules say of each character of a paragraph: 1 where a token begins and 2 where a
    sentence does, plus 2 if the token has several words; 0 elsewhere."""
    out = bytearray(end - start)
    for sentence, _ in cut_sentences(text, start, end):
        first = 1
        for at, chunk in sentence:
            for a, _, words, _ in chunk.tokens:
                out[at - start + a] = 1 + first + 2 * (len(words) > 1)
                first = 0
    return np.frombuffer(out, np.uint8)
