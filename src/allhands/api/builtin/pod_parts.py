"""What may change in a pod through doors of its own: ephemeral containers are added, resources of containers change.

Whatever else comes through these doors is dropped, or refused where the real server refuses it. Nothing here asks
whether a node can do it: what does not depend on the pod alone is admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.differences import unified
from allhands.api.builtin.resource_lists import nanos
from allhands.api.errors import forbidden, go_quote, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_THE_POD: Final = "[]"
"""The path of nothing in particular, as the server writes it."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_KEPT_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_RESIZABLE: Final = ("cpu", "memory")
_SORTS: Final = ("containers", "initContainers")


def prepare_ephemeral(new: Manifest, old: Manifest) -> None:
    """Nothing changes but the list of ephemeral containers."""
    wanted = new["spec"].get("ephemeralContainers")
    new["spec"] = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if wanted:
        new["spec"]["ephemeralContainers"] = wanted
    _keep_metadata(new, old)


def _keep_metadata(new: Manifest, old: Manifest) -> None:
    for field in _KEPT_METADATA:
        new["metadata"].pop(field, None)
        if field in old["metadata"]:
            new["metadata"][field] = old["metadata"][field]


def check_ephemeral_change(new: Manifest, old: Manifest, errors: list[FieldError]) -> list[FieldError]:
    """What is there stays as it is for the life of the pod. `errors` are those of the pod itself."""
    if _MIRROR in old["metadata"].get("annotations", {}):
        return [forbidden(_THE_POD, "static pods do not support ephemeral containers")]
    path = "spec.ephemeralContainers"
    wanted = {container.get("name", ""): container for container in new["spec"].get("ephemeralContainers", ())}
    for former in old["spec"].get("ephemeralContainers", ()):
        name = former.get("name", "")
        begin = f"existing ephemeral containers {go_quote(name)} may not be"
        if name not in wanted:
            errors.append(forbidden(path, f"{begin} removed\n"))
        elif wanted[name] != former:
            errors.append(forbidden(path, f"{begin} changed\n{unified(former, wanted[name])}"))
    return errors


def prepare_resize(new: Manifest, old: Manifest) -> None:
    """Nothing changes but resources and how they may change. Where containers came or went, all is left for the checks
    to refuse."""
    wanted, had = new["spec"], old["spec"]
    if any(len(wanted.get(sort, ())) != len(had.get(sort, ())) for sort in _SORTS):
        return
    spec = {name: value for name, value in had.items() if name != "resources"}
    if "resources" in wanted:
        spec["resources"] = wanted["resources"]
    for sort in _SORTS:
        if had.get(sort):
            spec[sort] = _resized(wanted[sort], had[sort])
    new["spec"] = spec
    _keep_metadata(new, old)


def _resized(wanted: list[Manifest], had: list[Manifest]) -> list[Manifest]:
    if any(one.get("name") != other.get("name") for one, other in zip(wanted, had, strict=True)):
        return wanted
    resized = []
    for container, former in zip(wanted, had, strict=True):
        kept = {name: value for name, value in former.items() if name not in ("resources", "resizePolicy")}
        changed = {name: container[name] for name in ("resources", "resizePolicy") if name in container}
        resized.append(kept | changed)
    return resized


def check_resize(new: Manifest, old: Manifest, errors: list[FieldError], *, keeps_class: bool) -> list[FieldError]:
    """`errors` are those of the pod itself; `keeps_class` says that its class of service stays."""
    spec, before = new["spec"], old["spec"]
    if _MIRROR in old["metadata"].get("annotations", {}):
        return [forbidden(_THE_POD, "static pods cannot be resized")]
    if before.get("os", {}).get("name") == "windows":
        return [forbidden(_THE_POD, "windows pods cannot be resized")]
    if not keeps_class:
        shown = new.get("status", {}).get("qosClass", "")
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _can_be_resized(old.get("status", {})):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if _has_amounts(spec) or _has_amounts(before):
        errors += _errors_of_whole(spec.get("resources"), before.get("resources"))
    misplaced = list(_misplaced(spec, before))
    if misplaced:
        return errors + misplaced
    for sort in reversed(_SORTS):
        for index, (container, former) in enumerate(zip(spec.get(sort, ()), before.get(sort, ()), strict=True)):
            where = f"spec.{sort}[{index}].resources"
            errors += _errors_of_removal(container.get("resources"), former.get("resources"), where, "resource")
    for container, former in zip(spec.get("containers", ()), before.get("containers", ()), strict=True):
        if _differs_beyond_amounts(container, former):
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (container, former) in enumerate(
        zip(spec.get("initContainers", ()), before.get("initContainers", ()), strict=True)
    ):
        if _differs_beyond_amounts(container, former):
            detail = "only cpu and memory resources for init or sidecar containers are mutable"
            errors.append(forbidden(f"spec.initContainers[{index}]", detail))
    return errors


def _can_be_resized(status: Manifest) -> bool:
    """A node that can do it says of running containers which resources they have."""
    for container in status.get("containerStatuses", ()):
        if "running" in container.get("state", {}):
            return "resources" in container
    return True


def _has_amounts(spec: Manifest) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _errors_of_whole(new: Manifest | None, old: Manifest | None) -> list[FieldError]:
    """Of resources of the pod as a whole."""
    if new is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = [] if old is None else _errors_of_removal(new, old, "spec.resources", "pod-level resource")
    if _amounts(_with_own_amounts(new, old or {})) != _amounts(old or {}):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _errors_of_removal(new: Manifest | None, old: Manifest | None, path: str, what: str) -> list[FieldError]:
    return [
        forbidden(f"{path}.{side}", f"{what} {side} cannot be removed")
        for side in ("requests", "limits")
        if (old or {}).get(side, {}).keys() - (new or {}).get(side, {}).keys()
    ]


def _misplaced(spec: Manifest, before: Manifest) -> Iterator[FieldError]:
    for sort in _SORTS:
        wanted, had = spec.get(sort, ()), before.get(sort, ())
        if len(wanted) != len(had):
            yield forbidden(f"spec.{sort}", f"{sort} may not be added or removed on resize")
            continue
        for index, (container, former) in enumerate(zip(wanted, had, strict=True)):
            if container.get("name") != former.get("name"):
                yield forbidden(f"spec.{sort}[{index}].name", f"{sort} may not be renamed or reordered on resize")


def _differs_beyond_amounts(container: Manifest, former: Manifest) -> bool:
    """Whether anything but the amounts of cpu and memory is different."""
    resources, before = container.get("resources", {}), former.get("resources", {})
    # The server forgets claims when it compares, so that a container with claims cannot be resized.
    munged = {side: value for side, value in _with_own_amounts(resources, before).items() if side != "claims"}
    if _amounts(munged) != _amounts(before):
        return True
    return any(container.get(name) != former.get(name) for name in (container | former).keys() - {"resources"})


def _with_own_amounts(resources: Manifest, before: Manifest) -> Manifest:
    """The new resources with cpu and memory as they were."""
    found = dict(resources)
    for side in ("requests", "limits"):
        others = {name: text for name, text in resources.get(side, {}).items() if name not in _RESIZABLE}
        found[side] = others | {name: text for name, text in before.get(side, {}).items() if name in _RESIZABLE}
    return found


def _amounts(resources: Manifest) -> Manifest:
    """By what they are, however they are written; nothing and none are the same."""
    return {
        side: {name: nanos(text) for name, text in value.items()} if isinstance(value, dict) else value
        for side, value in resources.items()
        if value
    }
