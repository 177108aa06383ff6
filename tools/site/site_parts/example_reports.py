"""The example reports: pages that the package draws from what real runs have reported."""

from __future__ import annotations

FOLDER = "reports/examples"


def replaced() -> dict[str, str]:
    """By recorded document below docs/, the page that the site shows in its place."""
    return {}


def pages() -> dict[str, str]:
    """By name below docs/, the page."""
    return {}
