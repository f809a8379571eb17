"""Labels that do not depend on each other."""

from tests.structures.conformance import ChainConformance
from turbotag.structures import multiclass


class TestMulticlass(ChainConformance):
    structure, order = multiclass, 0

    def impossible(self):
        """Every word can have a label."""
        return []
