"""Rules of CustomResourceDefinition: its names, its versions, and the status of one that is served.

The server folds what is the same in all versions into the spec before it validates, so its errors name paths
(`spec.validation`, `spec.additionalPrinterColumns`) that are not in the manifest; ours name the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.builtin.definition_schemas import validate_schema
from allhands.api.builtin.fieldchecks import immutable
from allhands.api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from allhands.api.names import dns1035_label, dns1123_subdomain
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Json, Manifest

MAX_SELECTABLE_FIELDS: Final = 8
_APPROVAL: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = "boolean,date,integer,number,string"
_COLUMN_FORMATS: Final = "byte,date,date-time,double,float,int32,int64,password"
_SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_MAX_WARNING_BYTES: Final = 256


def default(definition: Manifest) -> None:
    spec = definition["spec"]
    names = spec["names"]
    kind = names.get("kind", "")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def prepare_create(definition: Manifest) -> None:
    definition["status"] = {"acceptedNames": {"plural": "", "kind": ""}}
    _note_storage_version(definition)


def prepare_update(new: Manifest, _old: Manifest) -> None:
    _note_storage_version(new)


def _note_storage_version(definition: Manifest) -> None:
    """The versions in which objects may be stored are never forgotten by themselves."""
    status = definition["status"] = dict(definition.get("status") or {})
    stored = status.get("storedVersions") or []
    storage = _storage_version(definition)
    if storage and storage not in stored:
        status["storedVersions"] = [*stored, storage]


def _storage_version(definition: Manifest) -> str:
    versions = definition["spec"].get("versions") or ()
    return next((str(each["name"]) for each in versions if each.get("storage")), "")


def established_status(definition: Manifest, now: str) -> Manifest:
    """The status of a definition whose kinds are served. Conditions that were true before keep their time."""
    old = definition.get("status") or {}
    times = {
        each["type"]: each["lastTransitionTime"] for each in old.get("conditions") or () if each.get("status") == "True"
    }
    told = (
        ("NamesAccepted", "no conflicts found", "NoConflicts"),
        ("Established", "the initial names have been accepted", "InitialNamesAccepted"),
    )
    conditions = [
        {
            "type": kind,
            "status": "True",
            "lastTransitionTime": times.get(kind, now),
            "reason": reason,
            "message": message,
        }
        for kind, message, reason in told
    ]
    others = [each for each in old.get("conditions") or () if each["type"] not in ("NamesAccepted", "Established")]
    stored = old.get("storedVersions") or []
    storage = _storage_version(definition)
    return {
        "conditions": conditions + others,
        "acceptedNames": dict(definition["spec"]["names"]),
        "storedVersions": stored if storage in stored else [*stored, storage],
    }


def validate_create(definition: Manifest) -> list[FieldError]:
    metadata, spec = definition["metadata"], definition["spec"]
    errors: list[FieldError] = []
    if metadata.get("name") != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        text = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", metadata.get("name", ""), text))
    errors += _spec_errors(spec)
    errors += _stored_version_errors(definition)
    errors += _approval_errors(metadata, spec)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, text))
    return errors


def validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    errors = list(_spec_errors(spec))
    if _is_established(old):
        errors += immutable(spec, before, "scope", "spec")
        errors += immutable(spec["names"], before["names"], "kind", "spec.names")
    errors += immutable(spec, before, "group", "spec")
    errors += immutable(spec["names"], before["names"], "plural", "spec.names")
    errors += _stored_version_errors(new)
    if _approval_errors(new["metadata"], spec) and not _approval_errors(old["metadata"], before):
        errors += _approval_errors(new["metadata"], spec)
    return errors


def validate_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    return list(_name_errors((new.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"))


def _is_established(definition: Manifest) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _spec_errors(spec: Manifest) -> list[FieldError]:
    versions: list[Manifest] = spec.get("versions") or []
    shared = _shared_by_all(versions)
    errors = list(_group_and_scope_errors(spec))
    errors += [
        required(f"spec.versions[{index}].schema.openAPIV3Schema")
        for index, version in enumerate(versions)
        if not isinstance(_schema_of(version), dict)
    ]
    for index, version in enumerate(versions):
        errors += _version_errors(version, f"spec.versions[{index}]", shared)
    names = [version.get("name", "") for version in versions]
    shown = [_shown_version(version, shared) for version in versions]
    if len(set(names)) != len(names):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    if names and names[0] and (texts := dns1035_label(names[0])):
        errors.append(invalid("spec.version", names[0], ",".join(texts)))
    for name in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(name):
            errors.append(required(f"spec.names.{name}"))
    errors += _name_errors(spec["names"], "spec.names")
    if versions:
        errors += _shared_errors(versions, shared)
    return errors + list(_conversion_errors(spec.get("conversion") or {}))


def _shared_by_all(versions: list[Manifest]) -> frozenset[str]:
    """The parts that are the same in every version, which the server validates once, as parts of the spec."""
    return frozenset(
        part for part in _SHARED if versions and all(each.get(part) == versions[0].get(part) for each in versions)
    )


def _schema_of(version: Manifest) -> Json:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _group_and_scope_errors(spec: Manifest) -> Iterator[FieldError]:
    group, scope = spec.get("group", ""), spec.get("scope", "")
    if not group:
        yield required("spec.group")
    elif texts := dns1123_subdomain(group):
        yield invalid("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))


def _version_errors(version: Manifest, path: str, shared: frozenset[str]) -> Iterator[FieldError]:
    name = version.get("name", "")
    if texts := dns1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(texts))
    warning = version.get("deprecationWarning")
    if warning is not None:
        for text in _warning_errors(warning, deprecated=bool(version.get("deprecated"))):
            yield invalid(f"{path}.deprecationWarning", warning, text)
    if "schema" not in shared:
        yield from _schema_errors(version, f"{path}.schema", has_status=_has_status(version))
    own = frozenset(_SHARED) - shared
    if "schema" in shared and "selectableFields" in own and version.get("selectableFields"):
        # It looks for the schema in the version, and one that all versions share is kept elsewhere.
        why = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid(f"{path}.selectableFields", "", why)
        own -= {"selectableFields"}
    yield from _other_part_errors(version, path, own)


def _shared_errors(versions: list[Manifest], shared: frozenset[str]) -> Iterator[FieldError]:
    if "schema" in shared:
        has_status = any(_has_status(version) for version in versions)
        yield from _schema_errors(versions[0], "spec.validation", has_status=has_status)
    yield from _other_part_errors(versions[0], "spec", shared)


def _has_status(version: Manifest) -> bool:
    return "status" in (version.get("subresources") or {})


def _schema_errors(version: Manifest, path: str, *, has_status: bool) -> list[FieldError]:
    schema = _schema_of(version)
    return validate_schema(schema, f"{path}.openAPIV3Schema", has_status=has_status) if schema is not None else []


def _other_part_errors(version: Manifest, path: str, parts: frozenset[str]) -> Iterator[FieldError]:
    if "subresources" in parts:
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            yield from _scale_errors(scale, f"{path}.subresources.scale")
    if "additionalPrinterColumns" in parts:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    if "selectableFields" in parts:
        fields = version.get("selectableFields") or []
        yield from _selectable_errors(fields, _schema_of(version) or {}, f"{path}.selectableFields")


def _warning_errors(warning: str, *, deprecated: bool) -> list[str]:
    if not deprecated:
        return ["can only be set for deprecated versions"]
    texts = []
    if len(warning.encode()) > _MAX_WARNING_BYTES:
        texts.append(f"must be <= {_MAX_WARNING_BYTES} characters long")
    if not warning:
        texts.append("must not be an empty string")
    if not warning.isprintable():
        place = next(index for index, char in enumerate(warning) if not char.isprintable())
        at = len(warning[:place].encode())
        texts.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
    return texts


class _ShownVersion(msgspec.Struct, frozen=True, rename="pascal"):
    """A version as the server's errors show it: after what all versions share was moved to the spec."""

    name: str
    served: bool
    storage: bool
    deprecated: bool
    deprecation_warning: str | None
    schema: Json
    subresources: Json
    additional_printer_columns: Json
    selectable_fields: Json


def _shown_version(version: Manifest, shared: frozenset[str]) -> _ShownVersion:
    own = {part: None if part in shared else version.get(part) for part in _SHARED}
    return _ShownVersion(
        version.get("name", ""),
        bool(version.get("served")),
        bool(version.get("storage")),
        bool(version.get("deprecated")),
        version.get("deprecationWarning"),
        own["schema"],
        own["subresources"],
        own["additionalPrinterColumns"],
        own["selectableFields"],
    )


def _name_errors(names: Manifest, path: str) -> Iterator[FieldError]:
    for name in ("plural", "singular"):
        value = names.get(name, "")
        if value and (texts := dns1035_label(value)):
            yield invalid(f"{path}.{name}", value, ",".join(texts))
    for name in ("kind", "listKind"):
        value = names.get(name, "")
        if value and (texts := dns1035_label(value.lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(texts)}"
            yield invalid(f"{path}.{name}", value, text)
    yield from _label_list_errors(names, "shortNames", path)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _label_list_errors(names, "categories", path)


def _label_list_errors(names: Manifest, field: str, path: str) -> Iterator[FieldError]:
    for index, value in enumerate(names.get(field) or ()):
        if texts := dns1035_label(value):
            yield invalid(f"{path}.{field}[{index}]", value, ",".join(texts))


def _column_errors(column: Manifest, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind = column.get("type", "")
    if not kind:
        yield required(f"{path}.type", f"must be one of {_COLUMN_TYPES}")
    elif kind not in _COLUMN_TYPES.split(","):
        yield invalid(f"{path}.type", kind, f"must be one of {_COLUMN_TYPES}")
    form = column.get("format", "")
    if form and form not in _COLUMN_FORMATS.split(","):
        yield invalid(f"{path}.format", form, f"must be one of {_COLUMN_FORMATS}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    elif column["jsonPath"][0] != ".":
        yield invalid(f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _scale_errors(scale: Manifest, path: str) -> Iterator[FieldError]:
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value = scale.get(field) or ""
        if not value:
            if field != "labelSelectorPath":
                yield required(f"{path}.{field}")
        elif value[0] != ".":
            yield invalid(f"{path}.{field}", value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            places = " or ".join(root.rstrip(".") for root in roots)
            text = f"should be a json path under {'either ' if len(roots) > 1 else ''}{places}"
            yield invalid(f"{path}.{field}", value, text)


def _selectable_errors(fields: list[Manifest], schema: Any, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, value = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not value:
            yield required(place)
            continue
        found = schema if value.startswith(".") else None
        for name in value.removeprefix(".").split("."):
            found = (found.get("properties") or {}).get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            yield invalid(place, value, "is an invalid path: does not refer to a valid field")
            continue
        if value.split(".")[1] == "metadata":
            yield invalid(place, value, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            text = "must point to a field of type string, boolean or integer. Enum string fields and strings with "
            yield invalid(place, value, text + "formats are allowed.")
        if value in seen:
            yield duplicate(place, value)
        seen.add(value)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _conversion_errors(conversion: Manifest) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook")
    path = "spec.conversion"
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    client, reviews = (webhook or {}).get("clientConfig"), (webhook or {}).get("conversionReviewVersions") or []
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(f"{path}.webhookClientConfig", text)
        if reviews:
            yield forbidden(f"{path}.conversionReviewVersions", text)
        return
    if client is None:
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    elif ("url" in client) == ("service" in client):
        yield required(f"{path}.webhookClientConfig", "exactly one of url or service is required")
    if not reviews:
        yield required(f"{path}.conversionReviewVersions")
    elif not {"v1", "v1beta1"} & set(reviews):
        yield invalid(f"{path}.conversionReviewVersions", reviews, "must include at least one of v1, v1beta1")


def _stored_version_errors(definition: Manifest) -> Iterator[FieldError]:
    stored = (definition.get("status") or {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    missing = dict.fromkeys(stored)
    for version in definition["spec"].get("versions") or ():
        if version.get("storage") and version["name"] not in missing:
            yield invalid(path, stored, f"must have the storage version {version['name']}")
        missing.pop(version["name"], None)
    for index, name in enumerate(stored):
        if name in missing:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, text)


def _approval_errors(metadata: Manifest, spec: Manifest) -> list[FieldError]:
    """Groups of the Kubernetes community need a reference to an approval, or an excuse."""
    if not f".{spec.get('group', '')}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    value = (metadata.get("annotations") or {}).get(_APPROVAL, "")
    path, see = f"metadata.annotations[{_APPROVAL}]", "see https://github.com/kubernetes/enhancements/pull/1111"
    if not value:
        return [required(path, f'protected groups must have approval annotation "{_APPROVAL}", {see}')]
    if value.startswith("unapproved") or ("://" in value and value.partition("://")[2].strip("/")):
        return []
    text = f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a reason starting with '
    return [invalid(path, value, f'{text}"unapproved", {see}')]


RULES: Final = {
    "CustomResourceDefinition": Rules(
        default=default,
        prepare_create=prepare_create,
        validate_create=validate_create,
        prepare_update=prepare_update,
        validate_update=validate_update,
        validate_status=validate_status,
    ),
}
