"""Distributions as flat tables of nodes, drawn by inverting their CDF at one uniform number.

One draw uses one word, whatever the distribution: a mixture spends the leading digits of u on the choice of component
and the rest on the component's own draw.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthscape_kernels import philox, strict_math
from synthscape_kernels.jit import compiled

CONSTANT, UNIFORM, UNIFORM_INT, LOGUNIFORM, NORMAL, TRUNCNORM, TRIANGULAR, POISSON, BERNOULLI, CHOICE = range(10)

PER_EVENT, PER_SCENE, PER_CLASS = range(3)

PARAMETERS: Final = 4  # at most so many parameters in one distribution
PARAMETER_STREAM: Final = np.int64(7)
_A, _B, _C, _D = (np.int64(i) for i in range(PARAMETERS))
SCENE_SCOPE: Final = 0  # class positions count from 1 in slots drawn once per class


NODE: Final = np.dtype(
    [
        ("kind", np.int8),
        ("per", np.int8),  # how often the draw is renewed
        ("a", np.float64),  # parameters that are numbers
        ("b", np.float64),
        ("c", np.float64),
        ("d", np.float64),
        ("from_a", np.int32),  # node of a parameter that is itself a distribution, or -1
        ("from_b", np.int32),
        ("from_c", np.int32),
        ("from_d", np.int32),
        ("low", np.float64),  # clip, -inf and inf where there is none
        ("high", np.float64),
        ("first", np.int32),  # first component of a choice
        ("n_components", np.int32),
    ]
)
COMPONENT: Final = np.dtype(
    [
        ("node", np.int32),
        ("before", np.float64),  # weight of the components before it, a whole number
        ("weight", np.float64),  # its own, a whole number
    ]
)


class Program(NamedTuple):
    """Distributions compiled to nodes."""

    node: NDArray[np.void]  # [n] of NODE
    component: NDArray[np.void]  # [m] of COMPONENT


@compiled
def _invert(kind: Any, a: Any, b: Any, c: Any, d: Any, u: Any) -> Any:
    """Inverse CDF at u of a distribution with parameters a, b, c, d."""
    if kind == UNIFORM:
        return a + (b - a) * u
    if kind == UNIFORM_INT:
        return min(math.floor(a + (b - a + 1.0) * u), b)
    if kind == LOGUNIFORM:
        return a * strict_math.exp(strict_math.log(b / a) * u)
    if kind == NORMAL:
        return a + b * strict_math.ndtri(u)
    if kind == TRUNCNORM:
        if b == 0.0:
            return min(max(a, c), d)
        low, high = (c - a) / b, (d - a) / b
        # Far above the mean 1 - p loses all digits, so that side is drawn mirrored.
        sign = -1.0 if low > 0.0 else 1.0
        if sign < 0.0:
            low, high, u = -high, -low, 1.0 - u
        p_low = strict_math.ndtr(low)
        p = p_low + (strict_math.ndtr(high) - p_low) * u
        if p <= 0.0:
            return min(max(a, c), d)
        return min(max(a + sign * b * strict_math.ndtri(p), c), d)
    if kind == TRIANGULAR:
        if c == a:
            return a
        turn = (b - a) / (c - a)
        if u < turn:
            return a + math.sqrt(u * (c - a) * (b - a))
        return c - math.sqrt((1.0 - u) * (c - a) * (c - b))
    if kind == POISSON:
        return np.float64(strict_math.poisson(a, u))
    if kind == BERNOULLI:
        return 1.0 if u < a else 0.0
    return a


@compiled
def _choose(program: Any, node: Any, u: Any) -> Any:
    """The component of a choice that u falls into, and the rest of u stretched over (0, 1) again."""
    first = program.node[node].first
    last = first + program.node[node].n_components - 1
    at = u * (program.component[last].before + program.component[last].weight)
    i = first
    while i < last and at >= program.component[i].before + program.component[i].weight:
        i += 1
    while program.component[i].weight == 0.0:  # rounding at the very end met a component of weight 0
        i -= 1
    rest = (at - program.component[i].before) / program.component[i].weight
    return program.component[i].node, min(max(rest, 2.0**-54), 1.0 - 2.0**-53)


@compiled
def _descend(program: Any, node: Any, u: Any) -> Any:
    """Through choices to a node that is none: (node, rest of u, clip's low, clip's high).

    Clips nest, the innermost is applied first, so each narrows within those around it.
    """
    low, high = -np.inf, np.inf
    while True:
        own_low, own_high = program.node[node].low, program.node[node].high
        low, high = min(max(own_low, low), high), max(min(own_high, high), low)
        if program.node[node].kind != CHOICE:
            return node, u, low, high
        node, u = _choose(program, node, u)


@compiled
def _parameter(
    program: Any, node: Any, which: Any, source: Any, plain: Any, seed: Any, scene: Any, position: Any
) -> Any:
    """A parameter: a plain number, or a draw renewed once per scene or class, from a stream of its own."""
    if source < 0:
        return plain
    scope = position + 1 if program.node[source].per == PER_CLASS else SCENE_SCOPE
    slot = (np.int64(node) * PARAMETERS + which) * 65536 + scope
    leaf, u, low, high = _descend(program, source, philox.uniform(seed, PARAMETER_STREAM, scene, slot))
    x = program.node[leaf]
    return min(max(_invert(x.kind, x.a, x.b, x.c, x.d, u), low), high)


@compiled
def draw(program: Any, node: Any, u: Any, seed: Any, scene: Any, class_position: Any) -> Any:
    """One value of distribution ``node`` at ``u`` (float64).

    Parameters that are distributions are drawn once per scene, or once per class of the scene (``class_position``
    counts from 0; -1 where there is no class).
    """
    leaf, u, low, high = _descend(program, node, u)
    x = program.node[leaf]
    a = _parameter(program, leaf, _A, x.from_a, x.a, seed, scene, class_position)
    b = _parameter(program, leaf, _B, x.from_b, x.b, seed, scene, class_position)
    c = _parameter(program, leaf, _C, x.from_c, x.c, seed, scene, class_position)
    d = _parameter(program, leaf, _D, x.from_d, x.d, seed, scene, class_position)
    return min(max(_invert(x.kind, a, b, c, d, u), low), high)


@compiled
def poisson_count(mean: Any, u: Any) -> Any:
    """A Poisson count as a float64, so that it can stand where any drawn amount does."""
    return np.float64(strict_math.poisson(mean, u))
