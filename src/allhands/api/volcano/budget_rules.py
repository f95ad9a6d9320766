"""The annotations of a Job that say how much of it may be disturbed at a time, and which of them make sense.

Pure. They are passed on to its PodGroup, where the scheduler reads them, and to its pods, as in Volcano.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
BUDGETS: Final = (MIN_AVAILABLE, MAX_UNAVAILABLE)
"""The first that is stated counts."""
_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")
_PERCENTAGE: Final = re.compile("[1-9][0-9]?%")


def budget_errors(annotations: Mapping[str, str], path: str = "metadata.annotations") -> list[FieldError]:
    """What is wrong with them; nothing if there are none."""
    stated = [name for name in BUDGETS if name in annotations]
    errors = [
        invalid(f"{path}[{name}]", annotations[name], "must be a whole number above 0, or from 1% to 99%")
        for name in stated
        if not _NUMBER.fullmatch(annotations[name]) and not _PERCENTAGE.fullmatch(annotations[name])
    ]
    if len(stated) > 1:
        errors.append(forbidden(f"{path}[{MAX_UNAVAILABLE}]", f"is said by {MIN_AVAILABLE} already; name one of both"))
    return errors
