"""What is refused of a Queue because of other queues, and of what is submitted to one, with the path of each field.

Pure: the other queues are passed in. What contradicts itself in one queue is in `queue_rules`; nothing here looks at
what is used, but for a queue that shall become a parent or go while pods are in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, invalid, not_found
from allhands.api.volcano.queue import DEFAULT, ROOT
from allhands.api.volcano.surroundings import HIERARCHY, HIERARCHY_WEIGHTS, QueueFacts, queue_facts
from allhands.model.quantity import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import Surroundings

MOST_LEVELS: Final = 5
"""Below the root."""
_WATCHED: Final = ("capability", "deserved", "guarantee", "parent")


def submission_errors(name: str, path: str, around: Surroundings, *, to_a_leaf: bool = True) -> list[FieldError]:
    """Why nothing can be submitted to a queue."""
    queue = around.queue(name)
    if queue is None:
        return [not_found(path, name)]
    if not queue.is_open:
        return [invalid(path, name, f"the queue is {queue.state}; only an open queue takes Jobs and groups")]
    above = _shut_above(queue, around)
    if above is not None:
        return [invalid(path, name, f"the queue {above.name} above it is {above.state}; so nothing in it would start")]
    if not to_a_leaf:
        return []
    if name == ROOT:
        return [invalid(path, name, "nothing is submitted to the queue root; name one below it, such as default")]
    children = around.children(name)
    if children:
        detail = f"only a queue without queues below takes Jobs; below this are {', '.join(children[:MOST_LEVELS])}"
        return [invalid(path, name, detail + (", …" if len(children) > MOST_LEVELS else ""))]
    return []


def _shut_above(queue: QueueFacts, around: Surroundings) -> QueueFacts | None:
    """The nearest queue above that is not open, though this one is: it is about to be closed too."""
    seen = {queue.name}
    above = around.queue(queue.parent) if queue.parent else None
    while above is not None and above.name != ROOT and above.name not in seen:
        if not above.is_open:
            return above
        seen.add(above.name)
        above = around.queue(above.parent)
    return None


def tree_errors(queue: Manifest, old: Manifest | None, around: Surroundings) -> list[FieldError]:
    """Why a queue that is new, or has changed, does not fit beside the others."""
    facts = queue_facts(queue)
    errors = hierarchy_errors(queue, old, around.queues().values())
    before = None if old is None else queue_facts(old)
    if facts.name == ROOT or (before is not None and all(getattr(facts, it) == getattr(before, it) for it in _WATCHED)):
        return errors
    if before is None or before.parent != facts.parent:
        errors += _place_errors(facts, around)
    if not errors:
        errors += _amount_errors(facts, around)
    return errors


def deletion_error(queue: Manifest, around: Surroundings) -> str:
    """Why a queue must not be deleted; "" if it may."""
    facts = queue_facts(queue)
    if facts.name in (ROOT, DEFAULT):
        return f"the queue {facts.name} is always there"
    if children := around.children(facts.name):
        return f"queues are below it: {', '.join(children[:MOST_LEVELS])}; delete them, or give them another parent"
    if _units(facts.allocated_pods):
        return f"{facts.allocated_pods} pods of its groups are on nodes; close the queue and wait, or delete them"
    return ""


def complete_queue(queue: Manifest) -> None:
    """The root is put in front of a path in the annotations that leaves it out."""
    path, weights = _place_in_annotations(queue)
    if path and weights and not path.startswith(ROOT):
        annotations = queue["metadata"]["annotations"]
        annotations[HIERARCHY], annotations[HIERARCHY_WEIGHTS] = f"{ROOT}/{path}", f"1/{weights}"


def hierarchy_errors(queue: Manifest, old: Manifest | None, others: Iterable[QueueFacts]) -> list[FieldError]:
    """The tree by annotations: as many weights as names, and no queue on the way to another one. Who stays where it is
    is never refused for what others did since."""
    path, weights = _place_in_annotations(queue)
    if (not path and not weights) or (old is not None and _place_in_annotations(old) == (path, weights)):
        return []
    where = f"metadata.annotations[{HIERARCHY}]"
    if path.count("/") != weights.count("/") or not path or not weights:
        detail = f"must have as many parts as {HIERARCHY_WEIGHTS}, which is {weights!r}"
        return [invalid(where, path, detail)]
    if not all(path.split("/")):
        return [invalid(where, path, f"a name in the path is empty; it is written like {ROOT}/eng/prod")]
    for weight in weights.split("/"):
        if not _is_above_zero(weight):
            detail = f"each weight must be a number above 0, and {weight!r} is not"
            return [invalid(f"metadata.annotations[{HIERARCHY_WEIGHTS}]", weights, detail)]
    name = queue["metadata"].get("name", "")
    met = (_meeting(path, other) for other in others if other.name != name)
    return [invalid(where, path, detail) for detail in met if detail][:1]


def _place_in_annotations(queue: Manifest) -> tuple[str, str]:
    annotations = queue["metadata"].get("annotations") or {}
    return annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")


def _meeting(path: str, other: QueueFacts) -> str:
    """How the place of another queue stands in the way; "" if it does not. The root alone is no place."""
    if other.hierarchy.startswith(f"{path}/"):
        return f"the queue {other.name} is below it, at {other.hierarchy}"
    if other.hierarchy in ("", ROOT):
        return ""
    if other.hierarchy == path:
        return f"the queue {other.name} is there already; each queue has a path of its own"
    if path.startswith(f"{other.hierarchy}/"):
        return f"the queue {other.name} is on the way, at {other.hierarchy}; a path leads through no queue"
    return ""


def _is_above_zero(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _place_errors(queue: QueueFacts, around: Surroundings) -> list[FieldError]:
    """The parent must be there, free of pods, and not too deep. Circles are told by `queue_rules.place_error`."""
    level, name = 1, queue.parent
    while name != ROOT:
        parent = around.queue(name)
        if name == queue.name or parent is None:
            return []  # told by queue_rules, with the way there
        level, name = level + 1, parent.parent or ROOT
        if level > MOST_LEVELS:
            detail = f"it would be more than {MOST_LEVELS} levels below the root, which is the most that is allowed"
            return [invalid("spec.parent", queue.parent, detail)]
    parent = around.queue(queue.parent)
    if queue.parent == ROOT or parent is None or around.children(parent.name) or not _units(parent.allocated_pods):
        return []
    detail = f"{parent.allocated_pods} pods of its own groups are on nodes; a queue with queues below has none"
    return [invalid("spec.parent", queue.parent, detail)]


def _amount_errors(queue: QueueFacts, around: Surroundings) -> list[FieldError]:
    children = [it for it in around.queues().values() if it.parent == queue.name]
    errors = list(_below_errors(queue, children, around))
    parent = around.queue(queue.parent)
    if queue.parent == ROOT or parent is None:
        return errors
    for resource, amount in queue.capability.items():
        limit = _limit_above(queue, resource, around)
        if limit is not None and _units(amount) > _units(limit[1]):
            detail = f"must not be more than that of the queue {limit[0]} above, which is {limit[1]}"
            errors.append(invalid(f"spec.capability[{resource}]", amount, detail))
    siblings = [it for it in around.queues().values() if it.parent == queue.parent and it.name != queue.name]
    for field, path in (("guarantee", "spec.guarantee.resource"), ("deserved", "spec.deserved")):
        mine: Mapping[str, object] = getattr(queue, field)
        for resource, amount in mine.items():
            total = _units(amount) + sum(_units(getattr(it, field).get(resource, 0)) for it in siblings)
            limit_of_parent = getattr(parent, field).get(resource, 0)
            if total > _units(limit_of_parent):
                others = [it.name for it in siblings if resource in getattr(it, field)]
                together = f"together with {', '.join(others[:MOST_LEVELS])} " if others else ""
                detail = f"{together}it is more than {path} of {parent.name} above, which is {limit_of_parent}"
                errors.append(invalid(f"{path}[{resource}]", amount, detail))
    return errors


def _below_errors(queue: QueueFacts, children: list[QueueFacts], around: Surroundings) -> Iterator[FieldError]:
    """A queue must have what those below it were promised."""
    for resource, amount in queue.capability.items():
        for child in children:
            most = _highest_below(child, resource, around)
            if _units(most) > _units(amount):
                detail = f"below it, {child.name} may use {most}"
                yield invalid(f"spec.capability[{resource}]", amount, detail)
    for field, path in (("guarantee", "spec.guarantee.resource"), ("deserved", "spec.deserved")):
        mine: Mapping[str, object] = getattr(queue, field)
        named = {resource: None for child in children for resource in getattr(child, field)}
        for resource in named:
            total = sum(_units(getattr(child, field).get(resource, 0)) for child in children)
            if total > _units(mine.get(resource, 0)):
                detail = f"the {len(children)} queues below it have more together"
                yield invalid(f"{path}[{resource}]", mine.get(resource, 0), detail)


def _limit_above(queue: QueueFacts, resource: str, around: Surroundings) -> tuple[str, object] | None:
    """The nearest queue above that limits a resource, and how much it allows."""
    name, seen = queue.parent, {queue.name}
    while name != ROOT and name not in seen:
        seen.add(name)
        above = around.queue(name)
        if above is None:
            return None
        if _units(above.capability.get(resource, 0)):
            return name, above.capability[resource]
        name = above.parent or ROOT
    return None


def _highest_below(queue: QueueFacts, resource: str, around: Surroundings, depth: int = 0) -> object:
    """The most that a queue, or one below it that says something, may use."""
    own = queue.capability.get(resource, 0)
    if _units(own) or depth > MOST_LEVELS:
        return own
    children = [it for it in around.queues().values() if it.parent == queue.name]
    return max((_highest_below(it, resource, around, depth + 1) for it in children), key=_units, default=0)


def _units(amount: object) -> int:
    """An amount as a number; 0 of what is none, which is refused elsewhere."""
    try:
        return Quantity.parse(str(amount)).nanos
    except QuantityError:
        return 0
