"""A component of spaCy: `nlp.add_pipe("turbotag", config={"model": "en"})`.

spaCy imports this module, which is an entry point, with every pipeline: it is light, and what does
the work is imported by those who add the component.
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
