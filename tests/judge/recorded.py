"""Cases with the real scheduler's verdicts, as files: judged once, replayed in seconds without a control plane.

`recorded/` holds whole random cases (compressed), `cases/` holds small ones that once failed and were shrunk.
A file holds what the API server returned, without the fields that no scheduler reads.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tests.judge.clusters import Case
    from tests.judge.kube_scheduler import Judgement

Manifest = dict[str, Any]

RECORDED = Path(__file__).parent / "recorded"
FAILED_ONCE = Path(__file__).parent / "cases"
UNREAD_METADATA = ("managedFields", "resourceVersion", "generation", "creationTimestamp")


class Recorded(msgspec.Struct, frozen=True):
    """For each pod of `pods`: its theme, the feasible nodes, sorted, and the scheduler's message about the rest."""

    seed: int
    world: dict[str, list[Manifest]]
    pods: list[Manifest]
    themes: list[str]
    expected: list[list[str]]
    why: list[str]


def recorded(case: Case, judgement: Judgement) -> Recorded:
    return Recorded(
        seed=case.seed,
        world={kind: [_read(each) for each in found] for kind, found in judgement.world.items()},
        pods=[_read(pod) for pod in judgement.pods],
        themes=list(case.themes),
        expected=[sorted(verdict.nodes) for verdict in judgement.verdicts],
        why=[verdict.why for verdict in judgement.verdicts],
    )


def save(found: Recorded, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    data = msgspec.json.encode(found, order="sorted")
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data, mtime=0))
    else:
        path.write_bytes(msgspec.json.format(data, indent=1) + b"\n")


def load(path: Path) -> Recorded:
    data = path.read_bytes()
    return msgspec.json.decode(gzip.decompress(data) if path.suffix == ".gz" else data, type=Recorded)


def recorded_files() -> list[Path]:
    """All that is kept, the small ones first."""
    return sorted(FAILED_ONCE.glob("*.json")) + sorted(RECORDED.glob("*.json.gz"))


def _read(manifest: Manifest) -> Manifest:
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in UNREAD_METADATA}
    return {**manifest, "metadata": metadata}
