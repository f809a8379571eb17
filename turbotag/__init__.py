"""turbotag: linear taggers and dependency parsers, trained to a proven duality gap.

    nlp = turbotag.load("en")          # a shipped pipeline
    turbotag.Tagger, turbotag.Parser   # fit, predict, predict_marginals, score, save, load
    turbotag.CRF                       # the same for scikit-learn, as sklearn-crfsuite's

The library is imported when it is first used (turbotag/api.py): the command line need not wait.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turbotag import kernels

if TYPE_CHECKING:
    from turbotag.api import Document as Document
    from turbotag.api import Entity as Entity
    from turbotag.api import Explanation as Explanation
    from turbotag.api import Parser as Parser
    from turbotag.api import Sentence as Sentence
    from turbotag.api import Span as Span
    from turbotag.api import Tagger as Tagger
    from turbotag.api import Token as Token
    from turbotag.api import draw as draw
    from turbotag.api import explain as explain
    from turbotag.api import load as load
    from turbotag.integrations.sklearn import CRF as CRF

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
