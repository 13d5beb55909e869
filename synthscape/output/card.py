"""The dataset card: what a dataset holds, for people and for the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthscape.spec import Spec


def dataset_card(spec: Spec, content: Mapping[str, Any]) -> str:
    """The text of ``README.md``.

    Args:
        spec: what was rendered.
        content: what ``dataset.json`` says of it.
    """
    return f"# A synthetic dataset: {spec.task}\n\n{content['counts']['delivered']} items.\n"
