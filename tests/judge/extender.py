"""A loopback HTTP extender of the real kube-scheduler that writes down which nodes survived the filters for each pod.

It answers that no node will do, so that no pod is ever bound and every pod is judged against the same cluster.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

REFUSAL = b'{"NodeNames":[],"FailedNodes":{},"Error":""}'


class _Metadata(msgspec.Struct):
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Question(msgspec.Struct, rename="pascal"):
    pod: _Pod
    node_names: list[str]


class Extender:
    """`verdicts` maps the uid of a pod to the nodes it was first found feasible on."""

    def __init__(self) -> None:
        self.verdicts: dict[str, frozenset[str]] = {}
        self._asked = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._note))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def wait_for(self, uid: str, patience_seconds: float) -> frozenset[str] | None:
        """The verdict on this pod, or nothing if the scheduler did not ask in time."""
        with self._asked:
            self._asked.wait_for(lambda: uid in self.verdicts, patience_seconds)
            return self.verdicts.get(uid)

    def _note(self, question: _Question) -> None:
        with self._asked:
            # A pod may be tried again later, when the case is being cleared away: only the first verdict counts.
            self.verdicts.setdefault(question.pod.metadata.uid, frozenset(question.node_names))
            self._asked.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(note: Callable[[_Question], None]) -> type[BaseHTTPRequestHandler]:
    decoder = msgspec.json.Decoder(_Question)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            note(decoder.decode(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(REFUSAL)))
            self.end_headers()
            self.wfile.write(REFUSAL)

        def log_message(self, format: str, *args: Any) -> None:
            """Silence: the harness tells what matters."""

    return Handler
