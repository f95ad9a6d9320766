"""What is asked for, as far as rights go: a verb on a resource, or a method on a path."""

from __future__ import annotations

import msgspec

from allhands.api.errors import StatusError, go_quote, not_allowed


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody wants to do."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str | None = None
    """Of what is no resource (`/metrics`); the other fields but the verb mean nothing then."""

    @property
    def part(self) -> str:
        """The resource with its sub-resource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""The real server takes no chances with browsers."""


def refused(user_name: str, attributes: Attributes, reason: str = "") -> StatusError:
    """403 in the real server's words."""
    who = f"User {go_quote(user_name)} cannot {attributes.verb}"
    if attributes.path is not None:
        text = f"{who} path {go_quote(attributes.path)}"
    else:
        text = f"{who} resource {go_quote(attributes.part)} in API group {go_quote(attributes.group)}"
        scope = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
        text = f"{text} {scope}"
    text = text.translate(_ESCAPES)
    why = f"{text}: {reason}" if reason else text
    if attributes.path is not None:
        return StatusError(403, "Forbidden", f"forbidden: {why}", {})
    return not_allowed(attributes.group, attributes.resource, attributes.name, why)
