"""The judge: the API server's own audit log. It says when each pod was bound and what else a scheduler asked for.

Only the scheduler's user is logged, one line for a request, so that judging costs the API server about the same for
everybody and this process next to nothing while the clock runs.
"""

import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

USER: Final = "contender"
"""As whom schedulers talk to the API server here."""
POLICY: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
}
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
GROUP_KINDS: Final = frozenset({"podgroups", "workloads", "jobs", "queues"})
"""Whose writes are counted in a column of their own."""
BACKGROUND: Final = frozenset({"leases"})
"""What goes on whether there is work or not."""
_READ_BYTES: Final = 1 << 22


def flags(log: Path, policy: Path) -> list[str]:
    """For kube-apiserver. The file is never rotated: it is read by position."""
    return [f"--audit-log-path={log}", f"--audit-policy-file={policy}", "--audit-log-maxsize=1000000"]


class _Reference(msgspec.Struct, frozen=True, gc=False):
    resource: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    code: int = 0


class _Line(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    stage: str
    verb: str
    stage_timestamp: datetime.datetime
    object_ref: _Reference = _Reference()
    response_status: _Status = _Status()


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
        resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
        name = f"{line.verb} {resource or 'other'}"
        self._counts[name] = self._counts.get(name, 0) + 1
        if code >= 400:
            self._refused += 1
        elif resource == "pods/binding" and line.verb == "create":
            self.bound_at.append(line.stage_timestamp.timestamp())
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
