"""How the command line says numbers."""

from __future__ import annotations


def share(part: int, whole: int) -> str:
    """A share in percent, as text; a dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
