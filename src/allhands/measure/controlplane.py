"""The real Kubernetes control plane as a context manager, for benchmarks and tests.

etcd and kube-apiserver always; kube-controller-manager, kube-scheduler and kwok when asked for. Everything listens on
free loopback ports and lives in one temporary folder. It never builds anything: `make tools` does that.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from allhands.measure.processes import (
    Reaper,
    Service,
    ServiceEndedError,
    free_ports,
    keep_logs,
    port_is_free,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

READY_SECONDS = 60
"""How long a busy machine may take; an idle one needs a tenth of it."""
START_ATTEMPTS = 3
"""A free port may be taken by somebody else between our look and the server's bind; then all is tried again."""
GANG_GATES = "GenericWorkload=true,GangScheduling=true"
"""What the native gangs of Kubernetes need, in the API server and in kube-scheduler."""


class ToolsMissingError(RuntimeError):
    """The binaries of the real control plane are not on this machine."""


def cache_folder() -> Path:
    """Where this user keeps what allhands can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "allhands"


def tools_folder() -> Path:
    """The newest complete set of binaries that `tools/build` left in its cache."""
    cache = Path(os.environ.get("ALLHANDS_TOOLS") or cache_folder() / "tools")
    complete = sorted(cache.glob("*/.complete"), key=lambda mark: mark.stat().st_mtime)
    if not complete:
        message = (
            f"the real control plane is not built (nothing complete in {cache}): "
            "run `make tools` in a copy of the project's source; it needs Go"
        )
        raise ToolsMissingError(message)
    return complete[-1].parent


class ControlPlane:
    """`with ControlPlane() as plane:` gives a ready API server at `plane.url`, for `plane.token`.

    `users` are further users who may do everything, each with a kubeconfig of its own: the server tells them apart.
    """

    KWOK_STAGES: ClassVar[Path] = Path(__file__).parent / "kwok-at-once.yaml"

    def __init__(
        self,
        *,
        controllers: Sequence[str] = (),
        scheduler: bool = False,
        scheduler_settings: Mapping[str, Any] | None = None,
        kwok: bool = False,
        kwok_stages: Path | None = None,
        api_flags: Sequence[str] = (),
        etcd_flags: Sequence[str] = (),
        users: Sequence[str] = (),
        feature_gates: str = GANG_GATES,
    ) -> None:
        self.tools = tools_folder()
        self.token = "admin-" + os.urandom(12).hex()
        self.ready_seconds = 0.0
        self.services: dict[str, Service] = {}
        self.ports: list[int] = []
        self._controllers = tuple(controllers)
        self._scheduler = scheduler
        self._scheduler_settings = dict(scheduler_settings or {})
        self._kwok = kwok
        self._kwok_stages = kwok_stages or self.KWOK_STAGES
        self._api_flags = tuple(api_flags)
        self._etcd_flags = tuple(etcd_flags)
        self._tokens = {user: f"{user}-{os.urandom(12).hex()}" for user in users}
        self._feature_gates = feature_gates
        self._closing = contextlib.ExitStack()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.ports[0]}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def kubeconfig_of(self, user: str) -> Path:
        """Of one of the further users."""
        return self.folder / f"kubeconfig-{user}"

    @property
    def kubectl(self) -> Path:
        return self.tools / "kubectl"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="allhands-control-plane-"))
        self._closing.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._reaper = Reaper(self.folder)
        self._closing.callback(self._reaper.close)
        with self._stopping_on_error():
            self._write_keys()
            begin = time.monotonic()
            self._start_api()
            self.ready_seconds = time.monotonic() - begin
            self._start_others()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.keep_logs()
        self.stop()

    def stop(self) -> None:
        """Ends everything, last started first; kube-apiserver drains for a minute when asked, so it is not asked."""
        self._stop_services()
        wait_until(lambda: all(port_is_free(port) for port in self.ports), 10, "the end of the control plane")
        self._closing.close()

    def kill_apiserver(self) -> None:
        """As a crash does: nobody is told."""
        self.services.pop("kube-apiserver").stop(grace_seconds=0)
        wait_until(lambda: port_is_free(self.ports[0]), READY_SECONDS, "the port of the API server")

    def revive_apiserver(self) -> None:
        """After `kill_apiserver`, on the same port with the same data; returns when it is ready."""
        self._start_apiserver()
        wait_until(self._ready, READY_SECONDS, "kube-apiserver")

    def compact_etcd(self) -> None:
        """Forgets all that is older than now, as etcd is told to every five minutes."""
        revision = self._ask_etcd("kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})

    def _ask_etcd(self, call: str, body: Mapping[str, Any]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.ports[1]}/v3/{call}"
        request = urllib.request.Request(url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=READY_SECONDS) as response:  # noqa: S310
            return dict(json.load(response))

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Service:
        """A further child that ends with this control plane at the latest; who starts it stops it before."""
        return Service(name, command, self.folder, self._reaper, environment)

    @classmethod
    def logs_folder(cls) -> Path:
        """Where the logs of a failed run are kept."""
        return cache_folder() / "logs"

    def keep_logs(self) -> Path:
        """Copies the logs out of the temporary folder; returns where they are."""
        return keep_logs(self.folder, self.logs_folder() / self.folder.name)

    def raise_if_ended(self) -> None:
        for service in self.services.values():
            service.check_alive()

    @contextlib.contextmanager
    def _stopping_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            error.add_note(f"logs of the control plane: {self.keep_logs()}")
            self.stop()
            raise

    def _write_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self.folder / "service-accounts.key").write_bytes(pem)
        tokens = {"admin": self.token} | self._tokens
        lines = [f'{token},{user},{user},"system:masters"\n' for user, token in tokens.items()]
        (self.folder / "tokens.csv").write_text("".join(lines))

    def _start_api(self) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            self.ports = free_ports(3)
            try:
                self._start_etcd()
                self._start_apiserver()
                wait_until(self._ready, READY_SECONDS, "kube-apiserver")
            except ServiceEndedError as error:
                if attempt == START_ATTEMPTS or "address already in use" not in str(error):
                    raise
                self._stop_services()
            else:
                break
        self._write_kubeconfig(self.kubeconfig, self.token)
        for user, token in self._tokens.items():
            self._write_kubeconfig(self.kubeconfig_of(user), token)

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports[1:3])
        self._start(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            *self._etcd_flags,
        )

    def _start_apiserver(self) -> None:
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.ports[1]}",
            f"--secure-port={self.ports[0]}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--service-account-key-file={self.folder / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=172.20.0.0/16",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=20000",
            "--max-mutating-requests-inflight=20000",
            f"--feature-gates={self._feature_gates}",
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            *self._api_flags,
        )

    def _start_others(self) -> None:
        if self._controllers:
            self._start(
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig}",
                f"--controllers={','.join(self._controllers)}",
                f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
                "--leader-elect=false",
                "--secure-port=0",
                # A quota is first counted from a cache that may not know the pods of a moment ago, and then not again
                # for five minutes: whoever waits for the true count would see the wrong one all that time.
                "--resource-quota-sync-period=1s",
                "--kube-api-qps=5000",
                "--kube-api-burst=5000",
            )
        if self._scheduler:
            self._start(
                "kube-scheduler",
                f"--config={self._write_scheduler_configuration()}",
                f"--feature-gates={self._feature_gates}",
                "--secure-port=0",
            )
        if self._kwok:
            port = free_ports(1)[0]
            self.ports.append(port)
            self._start(
                "kwok",
                f"--kubeconfig={self.kubeconfig}",
                f"--config={self._kwok_stages}",
                "--manage-all-nodes=true",
                f"--server-address=127.0.0.1:{port}",
                "--node-lease-duration-seconds=40",
            )
            wait_until(lambda: self._listening(port), READY_SECONDS, "kwok")
        self.raise_if_ended()

    def _listening(self, port: int) -> bool:
        self.raise_if_ended()
        return not port_is_free(port)

    def _start(self, command: str, *flags: str) -> None:
        program = self.tools / command
        if not program.exists():
            message = f"{program} is missing: run `make tools`"
            raise ToolsMissingError(message)
        self.services[command] = Service(command, [program, *flags], self.folder, self._reaper)

    def _stop_services(self) -> None:
        while self.services:
            _, service = self.services.popitem()
            service.stop(grace_seconds=0)

    def _ready(self) -> bool:
        self.raise_if_ended()
        if not self.ca_file.exists():
            return False
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/readyz", headers=headers)  # noqa: S310 (https)
        try:
            trust = ssl.create_default_context(cafile=str(self.ca_file))
            with urllib.request.urlopen(request, context=trust, timeout=5) as response:  # noqa: S310 (https)
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError, ssl.SSLError, TimeoutError):
            return False

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        }
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)

    def _write_scheduler_configuration(self) -> Path:
        path = self.folder / "scheduler.yaml"
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": 5000, "burst": 5000},
            **self._scheduler_settings,
        }
        path.write_text(yaml.safe_dump(config))
        return path
