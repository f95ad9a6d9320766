"""What is counted of a group's pods change by change is what counting all of them anew would say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.dialects.pods import read_pod
from allhands.dialects.volcano_groups import read_group
from allhands.runtime.informer import Informer
from allhands.runtime.scheduling.group_members import GroupMembers
from tests.depth import examples
from tests.manifests import PODS
from tests.virtual import cluster, on_virtual_time

if TYPE_CHECKING:
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.ports import Objects

KEY = "default/volcano:g"
RULES: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"name": "a", "matchLabelKeys": ["x"]}],
    [{"name": "b", "labelSelector": {"matchLabels": {"x": "1"}}}, {"name": "c", "matchLabelKeys": ["x", "y"]}],
)
PODS_SEEN = st.fixed_dictionaries(
    {
        "name": st.sampled_from("pqr"),
        "group": st.sampled_from(["g", "other", ""]),
        "labels": st.dictionaries(st.sampled_from("xy"), st.sampled_from(["", "1", "2"])),
        "priority": st.integers(0, 2),
        "phase": st.sampled_from(["Pending", "Failed"]),
    }
)
STEPS = st.lists(PODS_SEEN | st.sampled_from("pqr") | st.sampled_from(range(len(RULES))), max_size=20)


def _raw(it: dict[str, Any], uid: str, version: int) -> bytes:
    annotations = {"scheduling.k8s.io/group-name": it["group"]} if it["group"] else {}
    metadata = {"name": it["name"], "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return msgspec.json.encode(
        {
            "metadata": {**metadata, "labels": it["labels"], "annotations": annotations},
            "spec": {"priority": it["priority"]},
            "status": {"phase": it["phase"]},
        }
    )


def _group(rules: int) -> GroupRecord:
    spec = {"minMember": 1, "subGroupPolicy": RULES[rules]}
    return read_group(msgspec.json.encode({"metadata": {"name": "g", "namespace": "default"}, "spec": spec}))


def _pods(objects: Objects) -> Informer[PodRecord]:
    index = {"group": lambda it: (f"{it.pod.namespace}/{it.group_name}",) if it.group_name else ()}
    return Informer(objects, PODS, read_pod, indexes=index)


@settings(max_examples=examples(200))
@given(steps=STEPS)
@on_virtual_time
async def test_counting_change_by_change_is_counting_anew(steps: list[Any]) -> None:
    _, objects, *_ = cluster()
    pods = _pods(objects)
    members, record = GroupMembers(pods), _group(0)
    asked = members.of(record, KEY)
    there: dict[str, tuple[str, bytes]] = {}
    """Pod -> its uid and text."""
    for version, step in enumerate(steps, start=1):
        if isinstance(step, int):
            record = _group(step)
            asked = members.of(record, KEY)
        elif isinstance(step, str):
            uid, _ = there.pop(step, ("", b""))
            pods.observe_gone(f"default/{step}", uid)
        else:
            uid, _ = there.get(step["name"], (f"uid-{version}", b""))
            there[step["name"]] = (uid, _raw(step, uid, version))
            pods.observe(there[step["name"]][1])
        anew = _pods(objects)
        fresh = GroupMembers(anew)
        for _, raw in there.values():
            anew.observe(raw)
        if KEY in members.take_stale():
            asked = members.of(record, KEY)
        assert asked == fresh.of(record, KEY)
