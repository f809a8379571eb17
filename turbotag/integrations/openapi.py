"""The description of the interface: OpenAPI 3.1, by hand, as small as the interface is."""

from __future__ import annotations

from typing import Any

import turbotag

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def thing(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TOKEN = thing(
    {
        "id": WHOLE | {"description": "its number in the sentence, from 1"},
        "text": TEXT,
        "start": WHOLE | {"description": "where it stands in the text, in characters"},
        "end": WHOLE,
        **dict.fromkeys(("lemma", "upos", "xpos", "feats", "label", "ner", "chunk"), TEXT),
        "head": WHOLE | {"description": "the id of its head, 0 for the root"},
        "probabilities": {"type": "object", "additionalProperties": NUMBER},
        "misc": {"type": "object", "description": "all other notes in the column MISC of CoNLL-U"},
    },
    "id",
    "text",
)
ENTITY = thing(
    {
        "type": TEXT,
        "start": WHOLE | {"description": "its first token, from 0"},
        "end": WHOLE | {"description": "the token after it"},
        "text": TEXT,
        "start_char": WHOLE,
        "end_char": WHOLE,
        "probability": NUMBER,
    },
    *("type", "start", "end", "text"),
)
SENTENCE = thing(
    {
        "sent_id": TEXT,
        "text": TEXT,
        "tokens": listed(TOKEN),
        "multiwords": listed(thing({"first": WHOLE, "last": WHOLE, "text": TEXT})),
        "entities": listed(ENTITY),
        "conllu": TEXT | {"description": "the sentence as CoNLL-U, for /api/explain"},
        "svg": TEXT | {"description": "a picture, if draw is true"},
    },
    "tokens",
    "conllu",
)
FEATURE = thing(
    {"name": TEXT, "words": listed(WHOLE), "part": TEXT, "weight": NUMBER}, "name", "weight"
)
EXPLANATION = thing(
    {
        "of": TEXT | {"description": "upos, xpos, ner, head, label, ..."},
        "word": WHOLE,
        "form": TEXT,
        "chosen": TEXT,
        "other": TEXT,
        "difference": NUMBER | {"description": "score of chosen less other: the sum of weights"},
        "features": listed(FEATURE),
        "rest": thing({"features": WHOLE, "weight": NUMBER}, "features", "weight"),
        "changes": listed(thing({"word": WHOLE, "form": TEXT, "chosen": TEXT, "other": TEXT})),
        "alternatives": listed({"type": "array", "prefixItems": [TEXT, NUMBER]}),
        "words": listed(TEXT),
    },
    *("of", "word", "chosen", "other", "difference", "features"),
)
MODEL = TEXT | {"description": "one of /api/models; the first one by default"}
ANNOTATE = thing(
    {
        "text": TEXT,
        "model": MODEL,
        "format": {"enum": ["raw", "conllu"], "description": "format of the text; raw by default"},
        "draw": {"type": "boolean"},
    },
    "text",
)
EXPLAIN = thing(
    {
        "conllu": TEXT | {"description": "one sentence"},
        "word": WHOLE | {"description": "the number of the word to explain, from 1"},
        "model": MODEL,
        "against": TEXT | {"description": "a tag, label or head to compare with"},
        "top": WHOLE | {"description": "how many features are listed, 20 by default"},
    },
    *("conllu", "word"),
)


def description(size: int, seconds: float) -> dict[str, Any]:
    """The document; size and seconds: the limits of a request."""
    errors = {
        "400": "what was sent cannot be used",
        "408": "the request did not arrive in time",
        "413": f"the request is larger than {size:,} bytes",
        "503": f"too many requests wait, or this one took longer than {seconds:g} s",
    }
    wrong = {
        code: {
            "description": told,
            "content": {"application/json": {"schema": thing({"error": TEXT}, "error")}},
        }
        for code, told in errors.items()
    }

    as_text = {
        code: {"description": told, "content": {"text/plain": {"schema": TEXT}}}
        for code, told in errors.items()
    }

    def answer(schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "200": {
                "description": "the answer",
                "content": {"application/json": {"schema": schema}},
            }
        }

    def posted(summary: str, given: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        body = {"required": True, "content": {"application/json": {"schema": given}}}
        return {
            "post": {"summary": summary, "requestBody": body, "responses": answer(found) | wrong}
        }

    process = {
        "data": "running text, or words in the format of input",
        "model": "a model or the beginning of its name",
        "tokenizer": "if given, data is running text",
        "tagger": "if given, parts of speech are found",
        "parser": "if given, trees are found",
        "input": "without tokenizer: conllu, horizontal or vertical",
        "output": "conllu, horizontal, vertical or plaintext",
    }
    parameters = [
        {
            "name": name,
            "in": "query",
            "description": told,
            "required": name == "data",
            "schema": TEXT,
        }
        for name, told in process.items()
    ]
    result = thing({"model": TEXT, "acknowledgements": listed(TEXT), "result": TEXT}, "result")
    form = {"schema": thing(dict.fromkeys(process, TEXT), "data")}
    forms = {"multipart/form-data": form, "application/x-www-form-urlencoded": form}
    as_udpipe = {"summary": "as UDPipe's REST service", "responses": answer(result) | as_text}
    named = thing({"models": {"type": "object"}, "default_model": TEXT})
    return {
        "openapi": "3.1.0",
        "info": {"title": "turbotag", "version": turbotag.__version__},
        "paths": {
            "/api/annotate": posted(
                "sentences, tokens, trees and entities of a text",
                ANNOTATE,
                thing({"model": TEXT, "sentences": listed(SENTENCE)}, "model", "sentences"),
            ),
            "/api/explain": posted(
                "the features that speak for the tags, the head and the label of a word",
                EXPLAIN,
                thing({"model": TEXT, "explanations": listed(EXPLANATION)}, "explanations"),
            ),
            "/api/models": {
                "get": {
                    "summary": "the models that are served",
                    "responses": answer(
                        thing({"models": listed({"type": "object"}), "default_model": TEXT})
                    ),
                }
            },
            "/api/health": {
                "get": {
                    "summary": "the version of the server, and how many requests are at work",
                    "responses": answer(thing({"version": TEXT, "running": WHOLE})),
                }
            },
            "/models": {
                verb: {"summary": "as UDPipe's REST service", "responses": answer(named)}
                for verb in ("get", "post")
            },
            "/process": {
                "get": as_udpipe | {"parameters": parameters},
                "post": as_udpipe | {"requestBody": {"required": True, "content": forms}},
            },
        },
    }
