"""How a patch is refused: the code and the words of a kube-apiserver, and why.

Where the server keeps its reason to itself (422), the message is the server's and the reason goes into the causes, so
that a client that compares messages and a person who wants to know are both served. Nothing here decides what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.errors import StatusError

if TYPE_CHECKING:
    from allhands.api.document import Json


class PatchError(StatusError):
    """A patch that was refused. `why` is the fault itself, also where the message is a general one."""

    def __init__(self, code: int, reason: str, message: str, why: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(code, reason, message, details)
        self.why = why


def malformed(why: str) -> PatchError:
    """400: the patch is not a patch."""
    return PatchError(400, "BadRequest", why, why)


def not_applicable(why: str) -> PatchError:
    """422: the patch is one, but it does not fit this document."""
    message = "the server rejected our request due to an error in our request"
    causes = [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]
    return PatchError(422, "Invalid", message, why, {"causes": causes})


def too_large(why: str) -> PatchError:
    return PatchError(413, "RequestEntityTooLarge", f"Request entity too large: {why}", why)


def failed(why: str) -> PatchError:
    """500 without a reason: what the server answers to the faults it does not classify."""
    return PatchError(500, "", why, why)


_JSON_TYPES = {type(None): "null", bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def wrong_json_type(value: Json, wanted: str) -> str:
    """What Go's decoder says of a value that does not fit the type named `wanted`."""
    return f"json: cannot unmarshal {_JSON_TYPES.get(type(value), 'object')} into Go {wanted}"
