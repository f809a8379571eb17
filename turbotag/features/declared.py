"""The kinds of resources, each declared once.

The command line, the options of training, model files and checkpoints are made from this table. It
imports nothing, so that `turbotag train --help` need not wait for numba. A new kind of resource is
a file with its class and an entry here.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """option: what gives its files, in Python and in a model's header; flag: the same on the
    command line, without --; help: of the flag; module, name: of its class, in features."""

    option: str
    flag: str
    help: str
    module: str
    name: str


KINDS = (
    Kind(
        "gazetteers",
        "gazetteer",
        "A list of names, one a line; templates use it as gaz. Repeatable.",
        *("gazetteer", "Gazetteer"),
    ),
    Kind(
        "clusters",
        "clusters",
        "Word clusters, a word, a tab and a path of 0 and 1 on each line, as `turbotag cluster` "
        "makes them; templates use them as cluster, cluster4, cluster10. Repeatable.",
        *("clusters", "Clusters"),
    ),
)
OPTIONS = tuple(kind.option for kind in KINDS)
