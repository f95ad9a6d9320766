"""The judge: the API server's own audit log. It says when each pod was bound and what else a scheduler asked for.

Only the scheduler's user is logged, and who creates pods where it matters when: one line for a request, so that judging
costs the API server about the same for everybody and this process next to nothing while the clock runs.
"""

import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

USER: Final = "contender"
"""As whom schedulers talk to the API server here."""
CUSTOMER: Final = "customer"
"""As whom pods are created if the moment of their creation matters; not counted among a scheduler's calls."""
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
GROUP_KINDS: Final = frozenset({"podgroups", "workloads", "jobs", "queues"})
"""Whose writes are counted in a column of their own."""
BACKGROUND: Final = frozenset({"leases"})
"""What goes on whether there is work or not."""
_READ_BYTES: Final = 1 << 22


def policy(*more: str) -> dict[str, Any]:
    """Of whom a line is written; `more` are further users who are judged."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [USER, CUSTOMER, *more]}, {"level": "None"}],
    }


def flags(log: Path, policy: Path) -> list[str]:
    """For kube-apiserver. The file is never rotated: it is read by position."""
    return [f"--audit-log-path={log}", f"--audit-policy-file={policy}", "--audit-log-maxsize=1000000"]


class _Reference(msgspec.Struct, frozen=True, gc=False):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int = 0


class _User(msgspec.Struct, frozen=True, gc=False):
    username: str = USER


class _Line(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    stage: str
    verb: str
    stage_timestamp: datetime.datetime
    object_ref: _Reference = _Reference()
    response_status: _Status = _Status()
    user: _User = _User()
    request_received_timestamp: datetime.datetime | None = None

    @property
    def moment(self) -> "Moment":
        answered = self.stage_timestamp.timestamp()
        received = self.request_received_timestamp
        return Moment(answered if received is None else received.timestamp(), answered)


class Moment(NamedTuple):
    """Of a request: when the API server got it, and when it had answered, as seconds since 1970."""

    received: float
    answered: float


_lines = msgspec.json.Decoder(_Line)


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """How often what was asked for. `by_what` has a line each, such as `create pods/binding`."""

    total: int
    binds: int
    group_writes: int
    refused: int
    by_what: dict[str, int]


class AuditLog:
    """What has been written since `begin`, as far as `read` has come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""
        self.begin()

    def begin(self) -> None:
        """Forgets everything; from now on it is another run."""
        self._position = self._path.stat().st_size if self._path.exists() else 0
        self._rest = b""
        self.bound_at: list[float] = []
        """When pods were bound, as seconds since 1970 by the API server."""
        self.bindings: dict[str, Moment] = {}
        """By `namespace/name` of the pod."""
        self.creations: dict[str, Moment] = {}
        """Of the customer's pods, by `namespace/name`."""
        self._counts: dict[str, int] = {}
        self._group_writes = 0
        self._refused = 0

    def read(self) -> bool:
        """Reads on to the end; whether there was anything but what always goes on."""
        has_news = False
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            file.seek(self._position)
            while chunk := file.read(_READ_BYTES):
                self._position += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                for line in lines:
                    has_news = self._see(_lines.decode(line)) or has_news
        return has_news

    def _see(self, line: _Line) -> bool:
        # A watch is counted when it begins; when it ends, everybody has long been counted.
        if (line.stage == "ResponseStarted") != (line.verb == "watch"):
            return False
        what, code = line.object_ref, line.response_status.code
        if line.user.username == CUSTOMER:
            if code < 400 and line.verb == "create" and what.resource == "pods":
                self.creations[f"{what.namespace}/{what.name}"] = line.moment
            return False
        resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
        name = f"{line.verb} {resource or 'other'}"
        self._counts[name] = self._counts.get(name, 0) + 1
        if code >= 400:
            self._refused += 1
        elif resource == "pods/binding" and line.verb == "create":
            self.bound_at.append(line.stage_timestamp.timestamp())
            self.bindings[f"{what.namespace}/{what.name}"] = line.moment
        if what.resource in GROUP_KINDS and line.verb in WRITES:
            self._group_writes += 1
        return what.resource not in BACKGROUND

    def calls(self) -> Calls:
        counts = dict(sorted(self._counts.items(), key=lambda it: (-it[1], it[0])))
        return Calls(
            total=sum(counts.values()),
            binds=len(self.bound_at),
            group_writes=self._group_writes,
            refused=self._refused,
            by_what=counts,
        )
