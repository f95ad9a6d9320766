"""`serviceaccounts/token`: a token for a service account, for whoever may ask. It is shown once and kept nowhere."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError, Telling, bad_request, conflict, invalid, invalid_object
from allhands.api.schema import timestamps
from allhands.server import options
from allhands.server.access.account_tokens import ACCOUNTS, BOUND, ISSUER, Reference
from allhands.server.answers import warning_headers, written, wrong_method
from allhands.server.parts import read_part

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.server.answers import Answer
    from allhands.server.resources import Call

_KIND: Final = "TokenRequest"
_GROUP: Final = "authentication.k8s.io"
DEFAULT_SECONDS: Final = 3600
LEAST_SECONDS: Final = 600
MOST_SECONDS: Final = 1 << 32


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    service_account_name: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: Reference = Reference()
    spec: _Spec = _Spec()


async def answer(call: Call) -> Answer:
    if call.request.method != "POST":
        raise wrong_method()
    form = call.form()
    how = options.write_options(call.request, "CreateOptions")
    body, warnings = await read_part(call.request, _KIND, how.field_validation)
    with Telling(warnings):
        document = await _issued(call, body)
    return written(document, form, 201, warning_headers(warnings))


async def _issued(call: Call, body: Manifest) -> Manifest:
    accounts, target, metadata = call.face.gate.accounts, call.target, body["metadata"]
    if accounts is None:
        raise StatusError(
            501, "NotImplemented", "serviceaccounts/token is not served here: there is no key to sign with"
        )
    for field, own in (("name", target.name), ("namespace", target.namespace)):
        if metadata.get(field) not in (None, "", own):
            why = f"must match the service account {field} if specified"
            raise invalid_object(_GROUP, _KIND, target.name, [invalid(f"metadata.{field}", metadata[field], why)])
    account = (await call.face.objects.get(ACCOUNTS, target.name, target.namespace)).decode(_Object).metadata
    if metadata.get("uid") not in (None, "", account.uid):
        why = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account"
        raise conflict(_GROUP, _KIND, target.name, f"{why} ({account.uid})")
    spec = {"expirationSeconds": DEFAULT_SECONDS, **(body.get("spec") or {})}
    spec = {"audiences": spec.get("audiences") or [ISSUER], **spec, "boundObjectRef": spec.get("boundObjectRef")}
    seconds = spec["expirationSeconds"]
    if (why := _seconds_error(seconds)) != "":
        raise invalid_object(_GROUP, _KIND, "", [invalid("spec.expirationSeconds", seconds, why)])
    bound = await _bound(call, spec["boundObjectRef"])
    now = call.face.clock.now()
    token = accounts.issue(target.namespace, account, spec["audiences"], seconds, bound)
    until = timestamps.seconds(now + datetime.timedelta(seconds=seconds))
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "uid": account.uid,
            "creationTimestamp": timestamps.seconds(now),
        },
        "spec": {name: spec[name] for name in ("audiences", "expirationSeconds", "boundObjectRef")},
        "status": {"token": token, "expirationTimestamp": until},
    }


def _seconds_error(seconds: int) -> str:
    if seconds < LEAST_SECONDS:
        return "may not specify a duration less than 10 minutes"
    return "may not specify a duration larger than 2^32 seconds" if seconds > MOST_SECONDS else ""


async def _bound(call: Call, reference: Manifest | None) -> tuple[str, Reference] | None:
    """What the token ends with, if it is there and is what is meant."""
    if reference is None:
        return None
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    if reference.get("apiVersion") not in (None, "", "v1") or kind not in BOUND:
        group, _, version = (reference.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    found = await call.face.objects.get(BOUND[kind], name, "" if kind == "Node" else call.target.namespace)
    one = found.decode(_Object)
    if kind == "Pod" and one.spec.service_account_name != call.target.name:
        account = f'serviceaccount "{call.target.name}"'
        raise bad_request(f"cannot bind token for {account} to pod running with different serviceaccount name.")
    if reference.get("uid") not in (None, "", one.metadata.uid):
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record."
        raise conflict("", kind, name, f"{why} The object might have been deleted and then recreated")
    return kind, one.metadata
