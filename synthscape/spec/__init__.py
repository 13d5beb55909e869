"""The spec: what a dataset is made of, read from YAML, checked, and complete.

>>> from synthscape.spec import load_spec
>>> load_spec("strong_detection", ["items=100"]).items
100
"""

from synthscape.spec.distributions import Distribution, parse_distribution
from synthscape.spec.load import load_spec, shipped_specs
from synthscape.spec.schema import Spec

__all__ = ["Distribution", "Spec", "load_spec", "parse_distribution", "shipped_specs"]
