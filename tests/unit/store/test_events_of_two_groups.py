"""One collection of events, two addresses: whatever is written through one reads the same through the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.catalog import builtin_kinds
from allhands.api.kinds import Resource
from allhands.api.schema.definitions import go_types

if TYPE_CHECKING:
    from allhands.store import InProcessObjects

CORE = Resource("", "v1", "events")
NEWER = Resource("events.k8s.io", "v1", "events")


def test_every_field_of_one_group_has_its_place_in_the_other() -> None:
    kinds = {kind.resource: kind for kind in builtin_kinds()}
    newer, core = kinds[NEWER], kinds[CORE]
    fields, stored = go_types()[newer.definition], go_types()[core.definition]
    assert {newer.stored_names.get(name, name) for name in fields} == set(stored)
    selected = [path.partition(".") for path in newer.selectable]
    stored_paths = [newer.stored_names.get(top, top) + dot + rest for top, dot, rest in selected]
    assert stored_paths == list(core.selectable[: len(selected)])


async def test_a_write_that_changes_nothing_is_none_through_either_group(objects: InProcessObjects) -> None:
    event = {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}, "message": "why", "count": 2}
    version = (await objects.create(CORE, event, "default")).manifest()["metadata"]["resourceVersion"]
    for resource, field in ((CORE, "message"), (NEWER, "note")):
        answer = (await objects.patch(resource, "a", "merge", {field: "why"}, "default")).manifest()
        assert answer["metadata"]["resourceVersion"] == version
        assert answer[field] == "why"
