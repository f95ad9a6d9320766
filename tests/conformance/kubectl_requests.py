"""Records what a stock kubectl really asks for, command by command: method, URL, Accept, Content-Type, answer.

kubectl speaks plain HTTP to a small proxy here, which forwards to the API server with the token and writes the list.
Run `python -m tests.conformance.kubectl_requests` for a fresh real control plane; the report goes to standard output.
It is a recorder only: no test depends on it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

KUBECTL_COMMANDS = (
    "create -f {folder}/node.yaml",  # first, so that the record shows discovery with a cold cache
    "get nodes",
    "get pods",
    "get pods -o wide",
    "get pods -o yaml",
    "get pod a -o yaml",
    "get pods -o jsonpath={.items[*].metadata.name}",
    "get pods -o name",
    "get pods -l app=x",
    "get pods --field-selector=status.phase=Pending",
    "get pods -A",
    "get all",
    "get pods,jobs",
    "get pods -w --request-timeout=2s",
    "get pods --watch-only --request-timeout=2s",
    "get pods --sort-by=.metadata.name",
    "get pods --show-labels --chunk-size=1",
    "create -f {folder}/configmap.yaml",
    "create -f {folder}/configmap.yaml --dry-run=server",
    "create configmap made --from-literal=k=v",
    "create namespace team",
    "create job hello --image=busybox",
    "create deployment web --image=busybox",
    "apply -f {folder}/pod.yaml",
    "apply -f {folder}/pod.yaml",
    "apply -f {folder}/pod-changed.yaml",
    "apply -f {folder}/pod-changed.yaml --dry-run=server",
    "apply -f {folder}/pod-changed.yaml --server-side",
    "apply -f {folder}/pod.yaml --validate=false",
    "apply -f {folder}/crd.yaml",
    "wait --for=condition=Established crd/widgets.example.com --timeout=20s",
    "apply -f {folder}/widget.yaml",
    "apply -f {folder}/widget-changed.yaml",
    "get widgets",
    "describe widget w",
    "explain widget.spec",
    "describe pod a",
    "describe pods",
    "describe node n1",
    "describe job hello",
    "describe deployment web",
    "describe configmap made",
    "describe namespace team",
    'patch pod a -p {{"metadata":{{"labels":{{"k":"v"}}}}}}',
    'patch pod a --type=merge -p {{"metadata":{{"labels":{{"k":"w"}}}}}}',
    'patch pod a --type=json -p [{{"op":"remove","path":"/metadata/labels/k"}}]',
    'patch pod a --subresource=status --type=merge -p {{"status":{{"message":"m"}}}}',
    "label pod a tier=front",
    "label pod a tier=back --overwrite",
    "annotate pod a note=yes",
    "scale deployment web --replicas=3",
    "cordon n1",
    "uncordon n1",
    "replace -f {folder}/configmap.yaml",
    "wait --for=jsonpath={{.status.phase}}=Pending pod/a --timeout=2s",
    "wait --for=create pod/a --timeout=2s",
    "diff -f {folder}/pod-changed.yaml",
    "delete configmap made",
    "delete pod a --wait=false --grace-period=0 --force",
    "delete pods -l app=x --timeout=2s",
    "wait --for=delete pod/a --timeout=2s",
    "delete job hello",
    "delete deployment web --cascade=foreground --wait=false",
    "delete -f {folder}/widget.yaml",
    "delete pods --all",
    "events",
    "top nodes",
    "auth can-i create pods",
    "cluster-info",
    "api-resources",
    "api-versions",
    "version",
    "get --raw /readyz",
    "logs a",
)

POD = """apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {containers: [{name: c, image: "%s"}]}
"""
WIDGET = """apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: %d}
"""
CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer}}}}
"""
NODE = """apiVersion: v1
kind: Node
metadata: {name: n1}
"""
FILES = {
    "pod.yaml": POD % "busybox",
    "pod-changed.yaml": POD % "busybox:2",
    "configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n",
    "crd.yaml": CRD,
    "widget.yaml": WIDGET % 1,
    "widget-changed.yaml": WIDGET % 2,
    "node.yaml": NODE,
}
SHOWN_REQUEST_HEADERS = ("Accept", "Content-Type", "If-None-Match")
SHOWN_BODY_CHARS = 600


class Recorder:
    """The proxy: forwards each request and keeps one text line or two about it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.lines: list[str] = []
        self._lock = threading.Lock()
        self._host = urllib.parse.urlsplit(plane.url).netloc
        self._trust = ssl.create_default_context(cafile=str(plane.ca_file))
        self._token = plane.token

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes | None) -> Any:
        connection = http.client.HTTPSConnection(self._host, context=self._trust)
        kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "accept-encoding")}
        connection.request(method, path, body=body, headers={**kept, "Authorization": f"Bearer {self._token}"})
        response = connection.getresponse()
        shown = "; ".join(f"{name}: `{headers[name]}`" for name in SHOWN_REQUEST_HEADERS if name in headers)
        text = f"- `{method} {path}` → {response.status} `{response.getheader('Content-Type', '')}`\n  - {shown}"
        if body and b"\0" in body:
            text += f"\n  - body: {len(body)} bytes of protobuf"
        elif body:
            text += f"\n  - body: `{body.decode(errors='replace').strip()[:SHOWN_BODY_CHARS]}`"
        with self._lock:
            self.lines.append(text)
        return response


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            response = recorder.forward(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection", "date"):
                    self.send_header(name, value)
            if response.status in (204, 304):
                self.end_headers()
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, http.client.IncompleteRead):
                while piece := response.read1(65536):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """The record is the log."""

    return Handler


@contextlib.contextmanager
def _proxy(recorder: Recorder) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(recorder))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _run(kubectl: Path, url: str, folder: Path, command: str) -> tuple[int, str]:
    words = [word.format(folder=folder) if "{folder}" in word or "{{" in word else word for word in command.split(" ")]
    environment = {**os.environ, "HOME": str(folder), "KUBECONFIG": str(folder / "none"), "KUBECTL_KUBERC": "false"}
    run = subprocess.run(
        [kubectl, f"--server={url}", *words], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    return run.returncode, (run.stdout + run.stderr).strip()


def record(plane: ControlPlane, out: IO[str]) -> None:
    recorder = Recorder(plane)
    with tempfile.TemporaryDirectory() as name, _proxy(recorder) as url:
        folder = Path(name)
        for file_name, text in FILES.items():
            (folder / file_name).write_text(text)
        for command in KUBECTL_COMMANDS:
            recorder.lines.clear()
            code, output = _run(plane.kubectl, url, folder, command)
            lines = "\n".join(recorder.lines)
            print(f"## kubectl {command}\nexit {code}\n\n{lines}\n\n```\n{output[:1500]}\n```\n", file=out)


def main() -> None:
    with ControlPlane() as plane:
        record(plane, sys.stdout)


if __name__ == "__main__":
    main()
