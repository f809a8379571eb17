"""turbotag: linear taggers and dependency parsers, trained to a proven duality gap.

    nlp = turbotag.load("en")          # a shipped pipeline
    turbotag.Tagger, turbotag.Parser   # fit, predict, predict_marginals, score, save, load

The library is imported when it is first used (turbotag/api.py): the command line need not wait.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turbotag.api import Document as Document
    from turbotag.api import Entity as Entity
    from turbotag.api import Parser as Parser
    from turbotag.api import Sentence as Sentence
    from turbotag.api import Tagger as Tagger
    from turbotag.api import Token as Token
    from turbotag.api import load as load

__version__ = "0.1.0"
__all__ = ["Document", "Entity", "Parser", "Sentence", "Tagger", "Token", "load"]


def _place_for_kernels() -> None:
    """numba keeps compiled kernels beside the package or in the user's cache folder, and fails if
    it can write to neither: then they go to a folder that lasts as long as the process. So they do
    if others can write to the cache folder, as where HOME is /tmp: what is read there is run."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Caches")
    own = os.path.join(home, "numba")
    while home and not os.path.exists(home):
        home = os.path.dirname(home)
    if "NUMBA_CACHE_DIR" in os.environ or os.access(os.path.dirname(__file__), os.W_OK):
        return
    folders = [folder for folder in (home, own) if os.path.exists(folder)]
    if folders and all(_private(folder) for folder in folders):
        return
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="turbotag-")  # private: a cache is code
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:  # which has read its environment already
        sys.modules["numba"].config.CACHE_DIR = folder
    atexit.register(shutil.rmtree, folder, True)


def _private(folder: str) -> bool:
    """Whether this user can write to a folder, and not everybody."""
    if not os.access(folder, os.W_OK) or os.name != "posix":
        return os.access(folder, os.W_OK)
    found = os.stat(folder)
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o002


_place_for_kernels()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'turbotag' has no attribute {name!r}")
    from turbotag import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
