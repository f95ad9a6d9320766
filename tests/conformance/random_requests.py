"""Random requests, good and broken, as hypothesis strategies; what they are made of stands in `random_parts.yaml`.

The strategies know nothing of servers. A request is a value of `pair.Ask`, with placeholders.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import strategies as st

from tests.conformance.pair import Ask, merged

Json = Any
SLOTS = ("a", "b")
LABEL_SELECTORS = ("app=x", "app!=x", "app in (x,y),tier", "!app", "tier>0", "app=x,tier=back", "app in x", "a=b=c")
FIELD_SELECTORS = (
    "metadata.name={name}",
    "metadata.name!={name}",
    "metadata.namespace={ns}",
    "status.phase=Running",
    "spec.nodeName=",
    "status.successful=0",
    "nonsense",
    "spec.nodeName=n1,status.phase!=Succeeded",
)
STRANGE: tuple[Json, ...] = (
    None, -1, 0, 2**31, 2**63, 1.5, "", "-", "Not Valid!", "x" * 300, True, [], {}, [None], {"a": 1}, "9Ei", "-1m",
)  # fmt: skip


class RandomKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind and what its bodies are made of; see the head of `random_parts.yaml`."""

    plural: str
    path: str
    base: dict[str, Json]
    parts: list[dict[str, Json]]
    places: list[str]
    status: list[dict[str, Json]] = []
    namespaced: bool = True
    has_status: bool = False
    has_scale: bool = False
    labelled_late: bool = False
    """The real server stores a new object without the labels that it shows, and with them at its first change, which so
    is one even if it changes nothing."""
    guarded: bool = False
    """Kept by a finalizer that a controller removes, which runs in one server and not in the other."""

    def __repr__(self) -> str:
        return self.plural

    @property
    def collection(self) -> str:
        return f"{self.path}/namespaces/{{ns}}/{self.plural}" if self.namespaced else f"{self.path}/{self.plural}"

    def name(self, slot: str) -> str:
        """Objects outside of namespaces carry the name of the example's namespace."""
        return slot if self.namespaced else f"{{ns}}-{slot}"

    def slot(self, slot: str) -> str:
        return f"{self.plural}_{slot}"

    def minimal(self, name: str) -> dict[str, Json]:
        return merged(self.base, {"metadata": {"name": name}})  # type: ignore[no-any-return]


class _Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metadata: list[dict[str, Json]]
    kinds: list[RandomKind]


_PARTS = msgspec.convert(
    yaml.safe_load((Path(__file__).parent / "random_parts.yaml").read_text(encoding="utf-8")), _Parts
)
KINDS = _PARTS.kinds


def first_change(kind: RandomKind, name: str, slot: str) -> Ask:
    """A change of a new object that is one for both servers."""
    path = f"{kind.collection}/{name}?fieldManager=m"
    return Ask("PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, type="merge", slot=slot)


slots = st.sampled_from(SLOTS)
dry_runs = st.sampled_from(["", "", "", "dryRun=All", "dryRun=Some"])
validations = st.sampled_from(["", "", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=Hard"])
accepts = st.sampled_from(["json", "json", "json", "table", "metadata", "yaml"])


def query(*words: str) -> str:
    return "?" + "&".join(word for word in words if word) if any(words) else ""


def parts(kind: RandomKind) -> st.SearchStrategy[dict[str, Json]]:
    """One change: more often of the kind's own fields than of metadata."""
    return st.sampled_from(kind.parts) | st.sampled_from(kind.parts) | st.sampled_from(_PARTS.metadata)


@st.composite
def bodies(draw: st.DrawFn, kind: RandomKind, name: str) -> dict[str, Json]:
    body = kind.minimal(name)
    for part in draw(st.lists(parts(kind), max_size=3)):
        body = merged(body, part)
    return draw(broken(body)) if draw(st.integers(0, 5)) == 0 else body


@st.composite
def broken(draw: st.DrawFn, body: dict[str, Json]) -> dict[str, Json]:
    """The body with one value, anywhere, replaced by a strange one."""
    body = copy.deepcopy(body)
    places = list(_places(body))
    owner, key = places[draw(st.integers(0, len(places) - 1))]
    owner[key] = draw(st.sampled_from(STRANGE))
    return body


def _places(value: Json) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key not in ("generateName", "globalDefault", "ownerReferences"):
            yield value, key
        yield from _places(item)


@st.composite
def json_patches(draw: st.DrawFn, kind: RandomKind) -> list[Json]:
    places = st.sampled_from([*kind.places, "/metadata/labels", "/metadata/labels/app", "/metadata/finalizers"])
    values = st.sampled_from(["x", "", 1, None, ["example.com/hold"], {"app": "x"}, {}])
    operations = st.sampled_from(["add", "add", "replace", "remove", "test", "copy", "move", "twist"])
    found = []
    for _ in range(draw(st.integers(0, 3))):
        operation: dict[str, Json] = {"op": draw(operations), "path": draw(places)}
        if operation["op"] in ("copy", "move"):
            operation["from"] = draw(places)
        elif operation["op"] != "remove":
            operation["value"] = draw(values)
        found.append(operation)
    return found


@st.composite
def patches(draw: st.DrawFn, kind: RandomKind, slot: str) -> Ask:
    type_ = draw(st.sampled_from(["merge", "strategic", "json patch"]))
    end = "/status" if kind.has_status and draw(st.integers(0, 2)) == 0 else ""
    if type_ == "json patch":
        body: Json = draw(json_patches(kind))
    else:
        body = draw(st.sampled_from(kind.status)) if end and kind.status else draw(parts(kind))
        version = draw(st.sampled_from(["", "", "", "{fresh_%s}", "{old_%s}", "x"]))
        if version:
            named = version % kind.slot(slot) if "%" in version else version
            body = merged(body, {"metadata": merged(body.get("metadata") or {}, {"resourceVersion": named})})
    path = f"{kind.collection}/{kind.name(slot)}{end}{query(draw(dry_runs), draw(validations))}"
    return Ask("PATCH", path, body, type=type_, slot=kind.slot(slot))


@st.composite
def updates(draw: st.DrawFn, kind: RandomKind, slot: str) -> Ask:
    """Either what was last seen with a change, or a body of its own; with the right, an old, no or a wrong version."""
    onto = draw(st.integers(0, 2)) > 0
    body = draw(parts(kind)) if onto else draw(bodies(kind, kind.name(slot)))
    version = draw(st.sampled_from(["", "", "{fresh_%s}", "{old_%s}", None, "x", 5]))
    if version != "" and isinstance(body.get("metadata", {}), dict):
        named = version % kind.slot(slot) if isinstance(version, str) and "%" in version else version
        body = merged(body, {"metadata": {"resourceVersion": named}})
    end = "/status" if kind.has_status and draw(st.integers(0, 3)) == 0 else ""
    if end and onto and kind.status:
        body = draw(st.sampled_from(kind.status))
    path = f"{kind.collection}/{kind.name(slot)}{end}{query(draw(dry_runs), draw(validations))}"
    return Ask("PUT", path, body, slot=kind.slot(slot), onto=onto)


@st.composite
def lists(draw: st.DrawFn, kind: RandomKind) -> Ask:
    words = []
    fields = "metadata.name={ns}-a" if not kind.namespaced else draw(st.sampled_from(["", "", *FIELD_SELECTORS]))
    if fields:
        words.append("fieldSelector=" + _escaped(fields.replace("{name}", kind.name("a"))))
    if draw(st.booleans()):
        words.append("labelSelector=" + _escaped(draw(st.sampled_from(LABEL_SELECTORS))))
    if kind.namespaced and draw(st.booleans()):
        words.append("limit=" + draw(st.sampled_from(["1", "1", "2", "0", "-1", "x"])))
    return Ask("GET", kind.collection + query(*words), accept=draw(accepts))


@st.composite
def deletions(draw: st.DrawFn, kind: RandomKind, slot: str) -> Ask:
    """Only a dry run leaves dependents to the garbage collector, which runs in one server and not in the other."""
    body: dict[str, Json] = {}
    if kind.plural == "jobs" or draw(st.booleans()):
        body["propagationPolicy"] = draw(
            st.sampled_from(["Background", "Background", "Sideways", "Foreground", "Orphan"])
        )
    if kind.guarded or body.get("propagationPolicy") in ("Foreground", "Orphan"):
        body["dryRun"] = ["All"]
    preconditions = ["", "", "", "{uid_%s}", "{fresh_%s}", "{old_%s}", "none"]
    condition = draw(st.sampled_from(preconditions))
    if condition:
        named = condition % kind.slot(slot) if "%" in condition else condition
        body["preconditions"] = {"uid" if "uid" in named or named == "none" else "resourceVersion": named}
    if draw(st.integers(0, 2)) == 0:
        body["gracePeriodSeconds"] = draw(st.sampled_from([0, 1, 40, -1, None, "5"]))
    if draw(st.integers(0, 9)) == 0:
        body["surprise"] = 1
    path = f"{kind.collection}/{kind.name(slot)}{query(draw(dry_runs))}"
    return Ask("DELETE", path, body or None, slot=kind.slot(slot) if "dryRun" not in body else "")


@st.composite
def collection_deletions(draw: st.DrawFn, kind: RandomKind) -> Ask:
    words = ["dryRun=All" if kind.guarded else draw(dry_runs), "propagationPolicy=Background"]
    if not kind.namespaced:
        words.append("fieldSelector=metadata.name%3D{ns}-a")
    if draw(st.booleans()):
        words.append("labelSelector=" + _escaped(draw(st.sampled_from(LABEL_SELECTORS))))
    return Ask("DELETE", kind.collection + query(*words))


@st.composite
def bindings(draw: st.DrawFn, slot: str) -> Ask:
    body: dict[str, Json] = {"metadata": {"name": draw(st.sampled_from([slot, slot, slot, "other"]))}}
    body["target"] = {"kind": "Node", "name": draw(st.sampled_from(["n1", "n2", "", "Not a node"]))}
    more = draw(st.sampled_from([None, {"uid": f"{{uid_pods_{slot}}}"}, {"annotations": {"by": "b"}}, {"labels": 1}]))
    body["metadata"].update(more or {})
    if draw(st.integers(0, 5)) == 0:
        body = draw(broken(body))
    path = f"/api/v1/namespaces/{{ns}}/pods/{slot}/binding{query(draw(dry_runs))}"
    return Ask("POST", path, body)


@st.composite
def evictions(draw: st.DrawFn, slot: str) -> Ask:
    body: dict[str, Json] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": slot}}
    options = [
        None, {}, {"gracePeriodSeconds": 3}, {"dryRun": ["All"]}, {"preconditions": {"uid": f"{{uid_pods_{slot}}}"}},
        {"preconditions": {"resourceVersion": f"{{old_pods_{slot}}}"}}, {"propagationPolicy": "Sideways"},
    ]  # fmt: skip
    chosen = draw(st.sampled_from(options))
    if chosen is not None:
        body["deleteOptions"] = chosen
    if draw(st.integers(0, 5)) == 0:
        body = draw(broken(body))
    return Ask("POST", f"/api/v1/namespaces/{{ns}}/pods/{slot}/eviction{query(draw(dry_runs))}", body)


@st.composite
def scalings(draw: st.DrawFn, kind: RandomKind, slot: str) -> Ask:
    path = f"{kind.collection}/{kind.name(slot)}/scale"
    how = draw(st.sampled_from(["GET", "PATCH", "PUT"]))
    if how == "GET":
        return Ask("GET", path)
    replicas = draw(st.sampled_from([0, 3, -1, "2", None, 2**31]))
    body: dict[str, Json] = {"spec": {"replicas": replicas}}
    if how == "PATCH":
        return Ask("PATCH", path, body, type="merge")
    metadata = {"name": kind.name(slot), "namespace": "{ns}"}
    if draw(st.booleans()):
        metadata["resourceVersion"] = draw(st.sampled_from(["{fresh_%s}", "{old_%s}"])) % kind.slot(slot)
    return Ask("PUT", path, {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, **body})


def _escaped(text: str) -> str:
    """Enough of URL quoting for selectors; the placeholders stay."""
    for char in "%=,() !>":
        text = text.replace(char, f"%{ord(char):02X}")
    return text
