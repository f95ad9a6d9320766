"""Removes from an answer what no two servers can have in common: times, uids, versions, random names and tokens, and
the addresses and node ports that services were given without asking.

Each is replaced by a placeholder that keeps what can be compared: the second uid seen is `<uid 2>` on both sides, and
an object that did not change keeps its `<version 1>`. NOTHING else is removed here; every further difference that we
accept is a row of EXCEPTIONS, and the documentation shows the same rows.
"""

from __future__ import annotations

import datetime
import re
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec


class Exemption(msgspec.Struct, frozen=True):
    """A field that is not compared. `requests` is a begin or a pattern of paths, `field` the end of a path."""

    requests: str
    field: str
    reason: str


OWNERS: Final = "metadata.managedFields"

EXCEPTIONS: Final = (
    Exemption("/apis/authorization.k8s.io", OWNERS, "a question is not kept, so nobody owns its fields"),
    Exemption("/apis/authentication.k8s.io", OWNERS, "a question is not kept, so nobody owns its fields"),
    Exemption("/api/v1/namespaces/*/serviceaccounts/*/token", OWNERS, "the same of a token"),
    Exemption("/version", "gitVersion", "ours adds its own version to the one whose API it speaks"),
    Exemption("/version", "gitCommit", "another build"),
    Exemption("/version", "gitTreeState", "another build"),
    Exemption("/version", "buildDate", "another build"),
    Exemption("/version", "goVersion", "ours is not written in Go"),
    Exemption("/version", "compiler", "ours is not written in Go"),
    Exemption("/version", "platform", "another machine"),
    Exemption("/api", "serverAddressByClientCIDRs", "the address of the server itself"),
    Exemption("/api/v1/namespaces/default/services/kubernetes", "targetPort", "the port of the server itself"),
)

READ_AS_EQUAL: Final = (
    ("the same cause of a refusal, several times", "the real one runs some checks of metadata up to four times"),
    ("an empty list as `items: null` and as `items: []`", "depends on which of its caches the real one reads"),
    ("`details.causes` of a patch that does not apply", "the real one keeps the reason to itself, ours says it"),
    ("the whole object, quoted in the refusal of a patch", "the real one sorts the fields that the patch touched"),
    ("the lines that differ, in a refused change of a spec", "the real one shows its internal Go types, ours the JSON"),
    ("conflicts of an apply in another order", "the real one tells them in no order"),
    ("owners of fields in another order", "they are sorted by the second in which they wrote"),
    ("the pod template shown in a refusal as immutable", "the real one shows its internal Go type, ours the JSON"),
)
"""What is written differently and means the same: (what, why)."""

_PATCH_REFUSED = "the server rejected our request due to an error in our request"
_QUOTED_RESULT = re.compile(r'(patch: )?Invalid value: "\{.*\}": ', re.DOTALL)
_SHOWN_LINES = re.compile(r"\n@@ .*", re.DOTALL)
_SHOWN_TEMPLATE = re.compile(r"(spec\.template(?:\.spec)?: )?Invalid value: \{.*\}\s*: field is immutable", re.DOTALL)

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})?Z")
_SIGNED_TOKEN = re.compile(r"^eyJ[\w-]+\.[\w-]+\.[\w-]+$")
_AGE = re.compile(r"^(\d+[smhdy])+$")
_VERSIONS_IN_TEXT = (
    re.compile(r"(too old resource version: \d+ \()(\d+)(\))"),
    re.compile(r"(Too large resource version: \d+, current: )(\d+)()"),
    re.compile(r"(does not match the ResourceVersion in record \()(\d+)(\))"),
    re.compile(r"(the ResourceVersion in the precondition \()(\d+)(\) does not match)"),
    re.compile(r'("resourceVersion":")(\d+)(")'),
    re.compile(r"(\bresourceVersion:)(\d+)(\])"),
    re.compile(r'(\\"resourceVersion\\":\\")(\d+)(\\")'),
)
_GENERATED_SUFFIX_CHARS = 5
_RECENT = datetime.timedelta(days=1)
_GIVEN_ADDRESS = re.compile(r"\b172\.20\.(?!0\.)\d{1,3}\.\d{1,3}\b")
"""Those below are given only to who asks for them, and so is the first part of the range of node ports."""
_GIVEN_PORTS = range(30086, 32768)
_SHOWN_PORT = re.compile(r"(?<=:)\d{5}(?=/(?:TCP|UDP|SCTP))")
_PORT_FIELDS = ("nodePort", "healthCheckNodePort")


class Normaliser:
    """Remembers, over one scenario on one server, which uid, version and generated name came first, second, third."""

    def __init__(self, now: datetime.datetime) -> None:
        self._now = now
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._columns: list[Any] = []

    def __call__(self, body: Any, request_path: str) -> Any:
        skipped = [row.field.split(".") for row in EXCEPTIONS if _under(request_path, row.requests)]
        return self._value(body, (), skipped)

    def text(self, text: str) -> str:
        """A header or a plain body."""
        return self._string(text)

    def _value(self, value: Any, path: tuple[str, ...], skipped: list[list[str]]) -> Any:
        if isinstance(value, dict):
            self._learn_generated_name(value)
            if value.get("kind") == "Table":
                self._columns = [column.get("name") for column in value.get("columnDefinitions") or ()] or self._columns
                value = _without_ages(value, self._columns)
            if value.get("kind") == "Status":
                value = _refusal(value)
            if value.get("items", ()) is None and str(value.get("kind", "")).endswith("List"):
                value = {**value, "items": []}
            return {
                self._string(key): self._field(key, field, value, (*path, key), skipped)
                for key, field in value.items()
                if not any(path_end == list((*path, key)[-len(path_end) :]) for path_end in skipped)
            }
        if isinstance(value, list):
            return [self._value(item, path, skipped) for item in value]
        return self._string(value) if isinstance(value, str) else value

    def _field(
        self, key: str, value: Any, owner: dict[str, Any], path: tuple[str, ...], skipped: list[list[str]]
    ) -> Any:
        if key == "resourceVersion" and isinstance(value, str) and value not in ("", "0"):
            if "uid" not in owner:
                return "<version>"
            return self._versions.setdefault(value, f"<version {len(self._versions) + 1}>")
        if key == "managedFields" and isinstance(value, list):
            value = sorted(value, key=_owner)
        if key in _PORT_FIELDS and isinstance(value, int):
            return self._port(value)
        if key == "continue" and isinstance(value, str) and value:
            return "<continue>"
        return self._value(value, path, skipped)

    def _learn_generated_name(self, owner: dict[str, Any]) -> None:
        prefix, name = owner.get("generateName"), owner.get("name")
        if not isinstance(prefix, str) or not isinstance(name, str) or not name.startswith(prefix):
            return
        if len(name) == len(prefix) + _GENERATED_SUFFIX_CHARS:
            self._names.setdefault(name, f"{prefix}<generated {len(self._names) + 1}>")

    def _string(self, text: str) -> str:
        for name, placeholder in self._names.items():
            text = text.replace(name, placeholder)
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid {len(self._uids) + 1}>"), text)
        text = _TIME.sub(self._time, text)
        text = _GIVEN_ADDRESS.sub(
            lambda found: self._addresses.setdefault(found[0], f"<address {len(self._addresses) + 1}>"), text
        )
        text = _SHOWN_PORT.sub(lambda found: str(self._port(int(found[0]))), text)
        text = _SIGNED_TOKEN.sub("<signed token>", text)
        for pattern in _VERSIONS_IN_TEXT:
            text = pattern.sub(r"\1<version>\3", text)
        text = _QUOTED_RESULT.sub(r'\1Invalid value: "<object>": ', text)
        text = _SHOWN_LINES.sub("", text)
        text = _SHOWN_TEMPLATE.sub(r"\1Invalid value: <template>: field is immutable", text)
        return _without_field_owners(text) if "managedFields" in text else text

    def _port(self, number: int) -> int | str:
        if number not in _GIVEN_PORTS:
            return number
        return self._ports.setdefault(number, f"<node port {len(self._ports) + 1}>")

    def _time(self, found: re.Match[str]) -> str:
        """Only times that the server just took from its clock; a time that the request carried is compared."""
        time = datetime.datetime.fromisoformat(found[1] + "+00:00")
        if abs(time - self._now) > _RECENT:
            return found[0]
        return "<time with microseconds>" if found[2] else "<time>"


def _owner(entry: dict[str, Any]) -> list[str]:
    return [str(entry.get(part, "")) for part in ("operation", "manager", "apiVersion", "subresource")]


def _without_field_owners(text: str) -> str:
    """Some refusals quote the whole object as JSON; the exception for `metadata.managedFields` holds there too."""
    begin = re.search(r',\\?"managedFields\\?":\[', text)
    if begin is None:
        return text
    depth = 1
    for end in range(begin.end(), len(text)):
        depth += {"[": 1, "]": -1}.get(text[end], 0)
        if depth == 0:
            return text[: begin.start()] + _without_field_owners(text[end + 1 :])
    return text


def _refusal(status: dict[str, Any]) -> dict[str, Any]:
    """The status with each cause once, and without the causes that only ours gives."""
    details = status.get("details") or {}
    causes = details.get("causes")
    if not causes:
        return status
    if status.get("message") == _PATCH_REFUSED:
        return {**status, "details": {name: value for name, value in details.items() if name != "causes"}}
    if any(cause.get("reason") == "FieldManagerConflict" for cause in causes):
        causes = sorted(causes, key=lambda cause: (str(cause.get("message")), str(cause.get("field"))))
    once = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
    return {**status, "details": {**details, "causes": once}}


def _under(path: str, prefix: str) -> bool:
    return fnmatchcase(path, prefix) or path.startswith((prefix + "/", prefix + "?"))


def _without_ages(table: dict[str, Any], columns: list[Any]) -> dict[str, Any]:
    """Ages in the cells of a table are times. `<unknown>` and the like stay. In a watch only the first table names
    its columns."""
    rows = []
    for row in table.get("rows") or []:
        cells = list(row.get("cells") or [])
        for place, name in enumerate(columns[: len(cells)]):
            if name == "Age" and isinstance(cells[place], str):
                cells[place] = _AGE.sub("<age>", cells[place])
        rows.append({**row, "cells": cells})
    return {**table, "rows": rows} if "rows" in table else table
