"""A component of spaCy: `nlp.add_pipe("turbotag", config={"model": "en"})`.

This module is an entry point, which spaCy imports with every pipeline. So it is light: the module
that does the work is imported only where the component is added.
"""

from typing import Any

from spacy.language import Language


@Language.factory(
    "turbotag",
    default_config={"model": "en", "batch_size": 256},
    assigns=[
        *("token.tag", "token.pos", "token.morph", "token.lemma", "token.head", "token.dep"),
        *("token.is_sent_start", "doc.ents"),
    ],
)
def create(nlp: Language, name: str, model: str, batch_size: int) -> Any:
    """model: the name of a shipped pipeline or model, or a model file; batch_size: how many Docs
    `nlp.pipe` annotates at once."""
    from turbotag.integrations.spacy_annotator import Annotator

    return Annotator(model, batch_size)
