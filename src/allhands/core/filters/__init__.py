"""Filter plugins, one file each: which nodes may be used at all. A line here for each, a row in docs/plugins.md."""

from __future__ import annotations

from typing import Final

from allhands.core.filters.nodelabels import NodeLabelFilter

FILTERS: Final = {"nodelabels": NodeLabelFilter}
"""Every filter plugin by its registered name."""
