"""turbotag: linear taggers and dependency parsers, trained to a proven duality gap.

    nlp = turbotag.load("en")          # a shipped pipeline
    turbotag.Tagger, turbotag.Parser   # fit, predict, predict_marginals, score, save, load
    turbotag.CRF                       # the same for scikit-learn, as sklearn-crfsuite's

The library is imported when it is first used (turbotag/api): the command line need not wait.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turbotag import kernels

if TYPE_CHECKING:
    from turbotag.api import (
        Document,
        Entity,
        Explanation,
        Parser,
        Sentence,
        Span,
        Tagger,
        Token,
        draw,
        explain,
        load,
    )
    from turbotag.integrations.sklearn import CRF

__version__ = "0.2.0"
__all__ = [
    "CRF",
    "Document",
    "Entity",
    "Explanation",
    "Parser",
    "Sentence",
    "Span",
    "Tagger",
    "Token",
    "draw",
    "explain",
    "load",
]


kernels.place()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'turbotag' has no attribute {name!r}")
    home = "turbotag.integrations.sklearn" if name == "CRF" else "turbotag.api"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
