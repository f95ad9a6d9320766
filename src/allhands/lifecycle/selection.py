"""Label selectors of stored objects, parsed once each. One that cannot be parsed selects nothing, and never fails."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import StatusError
from allhands.api.selectors import NOTHING, LabelSelector, label_selector

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def selector_of(selector: Manifest | None) -> LabelSelector:
    """None selects nothing, an empty one everything."""
    return NOTHING if selector is None else _parsed(msgspec.json.encode(selector))


def managing_selector(selector: Manifest | None) -> LabelSelector:
    """As above, but an empty one selects nothing: who manages pods must not take over everybody's."""
    found = selector_of(selector)
    return NOTHING if found.everything else found


@functools.lru_cache(maxsize=1 << 12)
def _parsed(text: bytes) -> LabelSelector:
    try:
        return label_selector(msgspec.json.decode(text))
    except StatusError:
        return NOTHING
