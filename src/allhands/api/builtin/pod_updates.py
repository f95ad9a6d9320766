"""What may still change in the spec of a living pod: images, a deadline, more tolerations, fewer scheduling gates, and
narrower placement while it is gated. Everything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.builtin.affinity import REQUIRED
from allhands.api.builtin.differences import unified
from allhands.api.builtin.gostructs import go_struct
from allhands.api.builtin.podspec import check_pod_annotations
from allhands.api.builtin.resource_lists import nanos
from allhands.api.builtin.tolerations import check_tolerations
from allhands.api.errors import forbidden, invalid, required
from allhands.api.names import in_range

if TYPE_CHECKING:
    from msgspec import Struct

    from allhands.api.document import Json, Manifest
    from allhands.api.errors import FieldError

_MAX_INT32 = (1 << 31) - 1
_MIRROR = "kubernetes.io/config.mirror"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)


def check_annotation_updates(new: Manifest, old: Manifest, errors: list[FieldError]) -> None:
    path = "metadata.annotations"
    after, before = new["metadata"].get("annotations", {}), old["metadata"].get("annotations", {})
    for key, value in before.items():
        if after.get(key) != value:
            if key.startswith(_APP_ARMOR):
                errors.append(forbidden(f"{path}[{key}]", "may not remove or update AppArmor annotations"))
            if key == _MIRROR:
                errors.append(forbidden(f"{path}[{key}]", "may not remove or update mirror pod annotation"))
    for key in after:
        if key not in before:
            if key.startswith(_APP_ARMOR):
                errors.append(forbidden(f"{path}[{key}]", "may not add AppArmor annotations"))
            if key == _MIRROR:
                errors.append(forbidden(f"{path}[{key}]", "may not add mirror pod annotation"))
    if after:
        check_pod_annotations(after, new["spec"], path, errors)


def check_spec_update(new: Manifest, old: Manifest, errors: list[FieldError]) -> None:
    for kind in ("containers", "initContainers"):
        if not _check_images(new.get(kind, ()), old.get(kind, ()), f"spec.{kind}", errors):
            return
    if not _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), errors):
        return
    _check_added_tolerations(new.get("tolerations", []), old.get("tolerations", ()), errors)
    _check_removed_gates(new.get("schedulingGates", ()), old.get("schedulingGates", ()), errors)
    if new == old:
        return
    comparable = _with_allowed_changes_undone(new, old)
    if old.get("schedulingGates"):
        _check_narrowed_placement(comparable, old, errors)
    if comparable != old:
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{unified(old, comparable)}"
        errors.append(forbidden("spec", text))


def changes_only_what_was_checked(new: Manifest, old: Manifest) -> bool:
    """Whether an accepted change is one of images or tolerations: those `check_spec_update` has looked at, and the
    rest of the spec was accepted when it was stored."""
    if old.get("schedulingGates"):
        return False
    if any(new.get(field) != old.get(field) for field in ("activeDeadlineSeconds", "terminationGracePeriodSeconds")):
        return False
    pairs = zip(_containers(new), _containers(old), strict=True)
    return all(one.get("resources") == other.get("resources") for one, other in pairs)


def _containers(spec: Manifest) -> list[Manifest]:
    return [*spec.get("containers", ()), *spec.get("initContainers", ()), *spec.get("ephemeralContainers", ())]


def _check_images(new: list[Manifest], old: list[Manifest], path: str, errors: list[FieldError]) -> bool:
    if len(new) != len(old):
        errors.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        image = container.get("image", "")
        if not image:
            errors.append(required(f"{path}[{index}].image"))
        if image != image.strip():
            detail = "must not have leading or trailing whitespace"
            errors.append(invalid(f"{path}[{index}].image", image, detail))
    return True


def _check_deadline(new: int | None, old: int | None, errors: list[FieldError]) -> bool:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    before = len(errors)
    errors += [invalid(path, new, text) for text in in_range(new, 0, _MAX_INT32)]
    if len(errors) == before and old is not None and old < new:
        errors.append(invalid(path, new, "must be less than or equal to previous value"))
    return len(errors) == before


def _check_added_tolerations(new: list[Manifest], old: list[Manifest], errors: list[FieldError]) -> None:
    if new == old:
        return
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden("spec.tolerations", detail))
        return
    check_tolerations(new, "spec.tolerations", errors)


def _without_seconds(toleration: Manifest) -> Manifest:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _check_removed_gates(new: list[Manifest], old: list[Manifest], errors: list[FieldError]) -> None:
    before = {gate.get("name", "") for gate in old}
    last_places = {gate.get("name", ""): index for index, gate in enumerate(new)}
    for name, index in last_places.items():
        if name not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", detail))


def _with_allowed_changes_undone(new: Manifest, old: Manifest) -> Manifest:
    comparable = dict(new)
    for kind in ("containers", "initContainers"):
        if new.get(kind):
            pairs = zip(new[kind], old[kind], strict=True)
            comparable[kind] = [_with_kept_parts(container, former) for container, former in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        comparable = _with(comparable, field, old.get(field))
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        comparable["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return comparable


def _with_kept_parts(container: Manifest, former: Manifest) -> Manifest:
    copy = _with(container, "image", former.get("image"))
    resources, before = container.get("resources"), former.get("resources")
    if resources != before and _amounts(resources) == _amounts(before):
        copy = _with(copy, "resources", before)
    return copy


def _amounts(resources: Manifest | None) -> Manifest:
    """The same amount may be written in several ways."""
    return {
        field: {name: nanos(text) for name, text in value.items()} if isinstance(value, dict) else value
        for field, value in (resources or {}).items()
    }


def _with(document: Manifest, field: str, value: Json) -> Manifest:
    """A copy in which the field has the value, or is absent."""
    copy = dict(document)
    if value is None:
        copy.pop(field, None)
    else:
        copy[field] = value
    return copy


def _check_narrowed_placement(comparable: Manifest, old: Manifest, errors: list[FieldError]) -> None:
    """A gated pod may get more node selectors and stricter node affinity. Undoes what is allowed in `comparable`."""
    before, after = old.get("nodeSelector", {}), comparable.get("nodeSelector", {})
    if after != before:
        if any(after.get(key) != value for key, value in before.items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", after or None, detail))
        _put(comparable, "nodeSelector", old.get("nodeSelector"))
    wanted, had = (spec.get("affinity", {}).get("nodeAffinity") for spec in (comparable, old))
    if wanted != had:
        _check_narrowed_affinity(wanted, had, errors)
        affinity = _with(comparable.get("affinity", {}), "nodeAffinity", had)
        _put(comparable, "affinity", affinity or ({} if "affinity" in old else None))


def _put(document: Manifest, field: str, value: Json) -> None:
    if value is None:
        document.pop(field, None)
    else:
        document[field] = value


def _check_narrowed_affinity(new: Manifest | None, old: Manifest | None, errors: list[FieldError]) -> None:
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    before = (old or {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    after = (new or {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    if not before:
        return
    if len(before) != len(after):
        shown = [_shown_term(term) for term in after] or None
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(invalid(path, shown, detail))
        return
    for index, (term, former) in enumerate(zip(after, before, strict=True)):
        if not _only_adds(term, former):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{path}[{index}]", _shown_term(term), detail))


def _only_adds(new: Manifest, old: Manifest) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(new.get(field) for field in fields)
    return all(new.get(field, [])[: len(old.get(field, ()))] == old.get(field, []) for field in fields)


def _shown_term(term: Manifest) -> Struct:
    """The term as the server's internal type prints it."""
    return go_struct(
        MatchExpressions=_shown_requirements(term.get("matchExpressions")),
        MatchFields=_shown_requirements(term.get("matchFields")),
    )


def _shown_requirements(requirements: list[Manifest] | None) -> list[Struct] | None:
    if requirements is None:
        return None
    return [
        go_struct(Key=each.get("key", ""), Operator=each.get("operator", ""), Values=each.get("values"))
        for each in requirements
    ]
