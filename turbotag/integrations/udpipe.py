"""UDPipe's REST service: /models and /process with its parameters and answers, for its clients.

data        what to process
model       a model, or the beginning of its name; the first one by default
tokenizer   data is running text; "ranges" notes where each token stands (TokenRange)
tagger      find parts of speech (and all else that stands in columns before the tree)
parser      find trees
input       without a tokenizer: conllu, horizontal or vertical
output      conllu, horizontal, vertical or plaintext
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from turbotag.corpus.export import Spelled, spell
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, stream
from turbotag.errors import UsageError
from turbotag.integrations.service import Deadline, Service, annotated
from turbotag.models.pipeline import RAW, Pipeline

# The columns that each part of UDPipe fills in. Entities have no column: UDPipe finds none.
PARTS = {"tagger": {"lemma", "upos", "xpos", "feats"}, "parser": {"head", "deprel"}}
INPUTS = ("conllu", "horizontal", "vertical")
# Options of the tokenizer; white space is normalized in any case
TOKENIZER = ("ranges", "normalized_spaces")
# The languages of the shipped models as UDPipe's clients call them, such as english-ewt-ud-2.15
LANGUAGES = {
    **dict.fromkeys(("english", "eng"), "en"),
    **dict.fromkeys(("portuguese", "por"), "pt"),
    **dict.fromkeys(("slovenian", "slv"), "sl"),
}
_PLACE = re.compile(r"([\t|])start_char=(\d+)\|end_char=(\d+)$", re.MULTILINE)


def models(service: Service) -> dict[str, Any]:
    """The answer of /models."""
    listed = {}
    for name, found in service.models.items():
        parts = ["tokenizer"]
        parts += [part for part in PARTS if any(PARTS[part] & {*m.gives} for m in found.models)]
        listed[name] = parts
    return {"models": listed, "default_model": service.default}


def process(service: Service, asked: dict[str, str], deadline: Deadline) -> dict[str, Any]:
    """The answer of /process."""
    if "data" not in asked:
        raise UsageError("the required argument data is missing")
    name, found = _model(service, asked.get("model", ""))
    output = asked.get("output", "") or "conllu"
    if output not in OUTPUTS:
        raise UsageError(f"unknown output {output!r:.40}: it is one of {', '.join(OUTPUTS)}")
    data, format = _data(asked)
    wanted = {column for part in PARTS if part in asked for column in PARTS[part]}
    made = copy.copy(found)
    made.models = [model for model in found.models if wanted & {*model.gives}]
    given = data.encode("utf-8", "replace")
    if made.models or format == RAW:
        blocks = annotated(made, given, format, deadline, marginals=False)
    else:
        blocks = stream(given, format)
    result = "".join(map(OUTPUTS[output], blocks))
    if format == RAW and output == "conllu":
        result = _places(result, "ranges" in asked.get("tokenizer", "").split(";"))
    return {"model": name, "acknowledgements": _credits(found), "result": result}


def _model(service: Service, name: str) -> tuple[str, Pipeline]:
    """A model by its name, by the beginning of its name, or by its language as in the names of
    UDPipe's models."""
    if name not in service.models:
        language = LANGUAGES.get(name.partition("-")[0], name)
        begins = [served for served in service.models if language and served.startswith(language)]
        name = begins[0] if begins else name
    return service.find(name)


def _places(conllu: str, ranges: bool) -> str:
    """Note where tokens stand as UDPipe does: as TokenRange if asked for, else not at all."""
    if ranges:
        return _PLACE.sub(r"\1TokenRange=\2:\3", conllu)
    return _PLACE.sub(lambda place: "\t_" if place[1] == "\t" else "", conllu)


def _data(asked: dict[str, str]) -> tuple[str, str]:
    """The data of a request, and the format in which to read it."""
    data, kind = asked["data"], asked.get("input", "") or "conllu"
    for option in filter(None, asked.get("tokenizer", "").split(";")):
        if option not in TOKENIZER:
            told = f"the tokenizer has no option {option!r:.40}, only {', '.join(TOKENIZER)}"
            raise UsageError(f"{told}; send sentences that are cut already with input=horizontal")
    if "tokenizer" in asked or kind == "generic_tokenizer":
        return data, RAW
    if kind not in INPUTS:
        raise UsageError(f"unknown input {kind!r:.40}: it is one of {', '.join(INPUTS)}")
    if kind == "conllu":
        return data, "conllu"
    lines = data.splitlines()
    if kind == "horizontal":
        sentences = [line.split() for line in lines]
    else:
        text = "\n".join(line.strip() for line in lines)
        sentences = [part.split("\n") for part in text.split("\n\n")]
    rows = []
    for words in sentences:
        forms = [word for word in words if word]
        empty = "\t_" * (len(CONLLU.columns) - 2)
        rows += [f"{i}\t{form}{empty}\n" for i, form in enumerate(forms, 1)]
        rows.append("\n" if forms else "")
    return "".join(rows), "conllu"


def _credits(found: Pipeline) -> list[str]:
    """Whose data the models were made of."""
    cards = (model.header.get("card", {}).get("credits", []) for model in found.models)
    return list(dict.fromkeys(credit for each in cards for credit in each))


def _words(sentence: Spelled) -> list[str]:
    return [str(word["text"]) for word in sentence.words]


def _conllu(block: Block) -> str:
    return block.buf.tobytes().decode()


def _horizontal(block: Block) -> str:
    return "".join(" ".join(_words(s)) + "\n" for s in spell(block))


def _vertical(block: Block) -> str:
    return "".join("\n".join(_words(s)) + "\n\n" for s in spell(block))


def _plaintext(block: Block) -> str:
    return "".join(s.comments.get("text", " ".join(_words(s))) + "\n" for s in spell(block))


OUTPUTS: dict[str, Callable[[Block], str]] = {
    "conllu": _conllu,
    "horizontal": _horizontal,
    "vertical": _vertical,
    "plaintext": _plaintext,
}
