"""turbotag: linear taggers and dependency parsers, trained to a proven duality gap.

    nlp = turbotag.load("en")          # a shipped pipeline
    turbotag.Tagger, turbotag.Parser   # fit, predict, predict_marginals, score, save, load

The library is imported when it is first used (turbotag/api.py): the command line need not wait.
"""

from typing import TYPE_CHECKING, Any

from turbotag import kernels

if TYPE_CHECKING:
    from turbotag.api import Document as Document
    from turbotag.api import Entity as Entity
    from turbotag.api import Parser as Parser
    from turbotag.api import Sentence as Sentence
    from turbotag.api import Tagger as Tagger
    from turbotag.api import Token as Token
    from turbotag.api import load as load

__version__ = "0.2.0"
__all__ = ["Document", "Entity", "Parser", "Sentence", "Tagger", "Token", "load"]


kernels.place()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'turbotag' has no attribute {name!r}")
    from turbotag import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
