"""k-best MIRA: the smallest change of the weights that satisfies k margin constraints.

Crammer and Singer 2003; McDonald, Crammer and Pereira 2005. At each instance
    min_{w', xi}  1/2 |w' - w|^2 + C xi   s.t.  w'.F(z - y_j) >= gamma cost(y_j) - xi,   j = 1..k
over the k best answers with cost-augmented scores: equation 17 of Martins et al. (2010) with k of
its half-spaces (optim/halfspaces). With k = 1 this is DCA on the hinge loss, with the step of
equation 15.
"""

from __future__ import annotations

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.halfspaces import HalfSpaces


class MIRA(HalfSpaces):
    name = "mira"
    reference = "McDonald, Crammer and Pereira 2005; Martins et al. 2010, equation 17"
    losses = "hinge"
    most = "kbest"
    params = (Param("kbest", 1, "number of answers that give a constraint each", least=1),)

    def half_spaces(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        theta, answers = self.problem.kbest(i, self.W, self.param["kbest"])
        directions = self.problem.gold(i) - answers
        return directions, -(directions @ theta)
