"""The few annotations of our own, and how their texts are read. docs/annotations.md has a row for each.

A text that cannot be read raises `AnnotationError` with its name, what it says and what is allowed; the caller decides
whom to tell.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from allhands.api import annotation_names
from allhands.api.names import dns1123_subdomain
from allhands.model.podgroup import TopologyMode, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Mapping

QUEUE: Final = "allhands.dev/queue"
VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
"""The same in Volcano's word; ours goes first."""
QUEUE_OF_JOB: Final = "volcano.sh/queue-name"
"""What a Volcano Job writes on its pods: theirs when their group is gone."""
MIN_AVAILABLE: Final = "allhands.dev/min-available"
EXPECTED_DURATION: Final = annotation_names.EXPECTED_DURATION
TOPOLOGY: Final = "allhands.dev/topology"
AFTER: Final = "allhands.dev/after"
GANG_BY_DEFAULT: Final = "allhands.dev/gang-by-default"
RESTRICTED: Final = "allhands.dev/restricted"
SCHEDULING: Final = "allhands.dev/scheduling"
"""Written by the scheduler: what it must remember of a group. Not for people to write."""

MOST_SECONDS: Final = 10 * 365 * 24 * 3600
LONGEST_TEXT: Final = 40
"""No annotation that is read here needs more; a longer one is refused before it costs anything."""
MOST_NAMES: Final = 100
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_MILLIS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class AnnotationError(ValueError):
    """An annotation whose text makes no sense."""


def duration_seconds(name: str, text: str) -> int:
    """Whole seconds of "90", "90s", "1h30m" or "2d"; a fraction of a second counts as a whole one."""
    stripped = text.strip()
    if len(stripped) > LONGEST_TEXT:
        raise AnnotationError(f'{name}: "{_shown(text)}" is not a duration such as 90s, 45m or 1h30m')
    if stripped.isascii() and stripped.isdigit():
        seconds = int(stripped)
    else:
        parts = _PART.findall(stripped)
        if not parts or "".join(number + unit for number, unit in parts) != stripped:
            raise AnnotationError(f'{name}: "{_shown(text)}" is not a duration such as 90s, 45m or 1h30m')
        seconds = math.ceil(sum(Fraction(number) * _MILLIS[unit] for number, unit in parts) / 1000)
    if seconds > MOST_SECONDS:
        raise AnnotationError(f'{name}: "{_shown(text)}" is longer than ten years')
    return seconds


def queue_named(annotations: Mapping[str, str] | None) -> str:
    if not annotations:
        return ""
    return annotations.get(QUEUE) or annotations.get(VOLCANO_QUEUE) or annotations.get(QUEUE_OF_JOB, "")


def min_available(text: str, size: int) -> int:
    """How many pods must start together: a number, or "all" of `size`."""
    stripped = text.strip()
    if stripped == "all":
        return size
    if not (stripped.isascii() and stripped.isdigit()) or len(stripped) > 9 or int(stripped) == 0:
        raise AnnotationError(f'{MIN_AVAILABLE}: "{_shown(text)}" is neither a number of pods from 1 on nor "all"')
    return int(stripped)


def topology_rule(text: str, labels: tuple[str, ...]) -> TopologyRule:
    """ "rack" or "hard:rack" for within one rack, "soft:rack" for as close as possible. `labels` are the known tiers,
    which may be named by all of their label or by what follows its last slash."""
    mode_text, colon, tier = text.strip().rpartition(":")
    modes = {"": TopologyMode.HARD, "hard": TopologyMode.HARD, "soft": TopologyMode.SOFT}
    found = [label for label in labels if tier == label] or [it for it in labels if tier == it.rpartition("/")[2]]
    if mode_text not in modes or (colon and not mode_text) or not found or not tier:
        known = ", ".join(label.rpartition("/")[2] for label in labels)
        raise AnnotationError(f'{TOPOLOGY}: "{_shown(text)}" is not [hard:|soft:]TIER with one of the tiers {known}')
    return TopologyRule(modes[mode_text], tier_name=found[0])


def topology_of(annotations: Mapping[str, str], labels: tuple[str, ...]) -> TopologyRule | None:
    text = annotations.get(TOPOLOGY)
    return None if text is None else topology_rule(text, labels)


def expected_seconds(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(EXPECTED_DURATION)
    return None if text is None else duration_seconds(EXPECTED_DURATION, text)


def expected_or_problem(annotations: Mapping[str, str]) -> tuple[int | None, str]:
    """The same, and what is wrong with it instead of an error."""
    try:
        return expected_seconds(annotations), ""
    except AnnotationError as error:
        return None, str(error)


def after_of(annotations: Mapping[str, str], own_name: str) -> tuple[str, ...]:
    """The Jobs that must be complete first: names, with commas between them."""
    text = annotations.get(AFTER)
    if text is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",", MOST_NAMES)))
    for name in names:
        if dns1123_subdomain(name):
            raise AnnotationError(f'{AFTER}: "{_shown(name)}" is not the name of a Job')
    if len(names) > MOST_NAMES:
        raise AnnotationError(f"{AFTER}: more than {MOST_NAMES} names")
    if own_name in names:
        raise AnnotationError(f'{AFTER}: "{_shown(own_name)}" cannot wait for itself')
    return names


def flag(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise AnnotationError(f'{name}: "{_shown(text)}" is neither "true" nor "false"')
    return text == "true"


def _shown(text: str) -> str:
    """Short enough for a message, and on one line."""
    short = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return "".join(char if char.isprintable() else " " for char in short)
