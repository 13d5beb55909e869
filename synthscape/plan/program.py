"""Distributions of a spec, compiled to the flat tables the planner's kernel draws from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from synthscape.spec.distributions import Distribution
from synthscape_kernels import draws
from synthscape_kernels.draws import Program

_KINDS: Final = {
    "constant": draws.CONSTANT,
    "uniform": draws.UNIFORM,
    "uniform_int": draws.UNIFORM_INT,
    "loguniform": draws.LOGUNIFORM,
    "normal": draws.NORMAL,
    "truncnorm": draws.TRUNCNORM,
    "triangular": draws.TRIANGULAR,
    "poisson": draws.POISSON,
    "bernoulli": draws.BERNOULLI,
    "choice": draws.CHOICE,
    "mixture": draws.CHOICE,
}
_PARAMETERS: Final = ("a", "b", "c", "d")
_PER: Final = {"event": draws.PER_EVENT, "scene": draws.PER_SCENE, "class": draws.PER_CLASS}


@dataclass
class ProgramBuilder:
    """Collects distributions; each gets the number of its node.

    >>> builder = ProgramBuilder()
    >>> node = builder.add(Distribution("uniform", (1.0, 2.0)))
    >>> program = builder.build()
    """

    _nodes: list[tuple[Distribution, list[int], int]] = field(default_factory=list)  # distribution, sources, first
    _components: list[tuple[int, int, int]] = field(default_factory=list)  # node, weights before, weight

    def add(self, distribution: Distribution) -> int:
        """Add a distribution and all it is made of: the number of its node."""
        sources = [self.add(p) if isinstance(p, Distribution) else -1 for p in distribution.params]
        members = [self.add(member) for member in distribution.choices]
        first = len(self._components)
        before = 0
        for member, weight in zip(members, distribution.weights, strict=True):
            self._components.append((member, before, weight))
            before += weight
        self._nodes.append((distribution, sources, first))
        return len(self._nodes) - 1

    def build(self) -> Program:
        """The tables, in the order the distributions were added."""
        node = np.zeros(len(self._nodes), draws.NODE)
        for row, (distribution, sources, first) in zip(node, self._nodes, strict=True):
            row["kind"] = _KINDS[distribution.kind]
            row["per"] = _PER[distribution.per]
            for name in _PARAMETERS:
                row[f"from_{name}"] = -1
            for name, parameter, source in zip(_PARAMETERS, distribution.params, sources, strict=False):
                row[f"from_{name}"] = source
                row[name] = 0.0 if isinstance(parameter, Distribution) else parameter
            row["low"], row["high"] = distribution.clip or (-np.inf, np.inf)
            row["first"], row["n_components"] = first, len(distribution.choices)
        return Program(node=node, component=np.array(self._components, draws.COMPONENT))
