"""What runs: the Deployments, what may be disrupted of them, and whom they may speak to.

Containers are as restricted as Pod Security's strictest profile asks for, whether or not the namespace enforces it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from allhands import __version__
from allhands.api.definitions import MANAGED_BY, OURS, PART_OF
from allhands.runtime.installation.webhooks import NAME, SERVICE_PORT

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.runtime.installation.options import InstallOptions

PORT: Final = 8080
WEBHOOK_PORT: Final = 8443
USER: Final = 65532
"""Nobody in particular, and the user of the image."""
POLICY_FOLDER: Final = "/etc/allhands/policy"
METRICS_FOLDER: Final = "/etc/allhands/metrics"
REQUESTS: Final = {
    "scheduler": {"cpu": "500m", "memory": "256Mi"},
    "controllers": {"cpu": "100m", "memory": "128Mi"},
    "webhooks": {"cpu": "100m", "memory": "128Mi"},
}
_COMPONENT: Final = "app.kubernetes.io/component"


def selector_of(part: str) -> dict[str, str]:
    """What a Deployment selects by; it cannot change afterwards, so no version is in it."""
    return {"app.kubernetes.io/name": OURS, _COMPONENT: part}


def arguments_of(options: InstallOptions, part: str) -> list[str]:
    """How the process is called; without a kubeconfig it uses its service account."""
    names = [f"--scheduler-name={name}" for name in options.scheduler_names]
    policy = [f"--policy={POLICY_FOLDER}/policy.yaml"] if options.policy and part == "scheduler" else []
    return [
        part,
        *names,
        *policy,
        f"--address=0.0.0.0:{WEBHOOK_PORT}" if part == "webhooks" else "--leader-elect",
        f"--lease-namespace={options.namespace}",
        f"--metrics-address=0.0.0.0:{PORT}",
        *([f"--metrics-token-file={METRICS_FOLDER}/token"] if options.metrics_secret else []),
        "--log-level=info",
        "--log-format=json",
    ]


def workload(options: InstallOptions, part: str) -> Manifest:
    """A Deployment of which one replica leads and the others wait to; of webhooks every one answers."""
    metadata = {"name": f"{OURS}-{part}", "namespace": options.namespace, "labels": {_COMPONENT: part}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": selector_of(part)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": _pod_metadata(options, part), "spec": _pod_spec(options, part)},
        },
    }


def _pod_metadata(options: InstallOptions, part: str) -> Manifest:
    labels = {
        **selector_of(part),
        PART_OF: OURS,
        "app.kubernetes.io/version": __version__,
        MANAGED_BY: OURS,
    }
    if not options.policy or part != "scheduler":
        return {"labels": labels}
    # Another policy is another template: the replicas are replaced, one after the other.
    digest = hashlib.sha256(options.policy.encode()).hexdigest()
    return {"labels": labels, "annotations": {"allhands.dev/policy-digest": digest}}


def _pod_spec(options: InstallOptions, part: str) -> Manifest:
    spec: Manifest = {
        "serviceAccountName": f"{OURS}-{part}",
        "automountServiceAccountToken": True,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [_spread(part, key) for key in _APART],
        "containers": [_container(options, part)],
    }
    if options.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    volumes = _volumes(options, part)
    if volumes:
        spec["volumes"] = [{"name": name, **source} for name, (_, source) in volumes.items()]
    return spec


def _volumes(options: InstallOptions, part: str) -> dict[str, tuple[str, Manifest]]:
    """By name, where each is mounted and what it is made of."""
    found: dict[str, tuple[str, Manifest]] = {}
    if options.policy and part == "scheduler":
        found["policy"] = (POLICY_FOLDER, {"configMap": {"name": f"{OURS}-policy"}})
    if options.metrics_secret:
        found["metrics"] = (METRICS_FOLDER, {"secret": {"secretName": options.metrics_secret}})
    return found


_APART: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def _spread(part: str, key: str) -> Manifest:
    """Replicas that fail together are one. In a cluster of one node all of them run there."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector_of(part)},
    }


def _container(options: InstallOptions, part: str) -> Manifest:
    container: Manifest = {
        "name": part,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments_of(options, part),
        "ports": _ports(part),
        "livenessProbe": _probe("/healthz", initialDelaySeconds=15, periodSeconds=20, timeoutSeconds=5),
        "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=5),
        "resources": {"requests": REQUESTS[part]},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    volumes = _volumes(options, part)
    if volumes:
        container["volumeMounts"] = [
            {"name": name, "mountPath": folder, "readOnly": True} for name, (folder, _) in volumes.items()
        ]
    return container


def _ports(part: str) -> list[Manifest]:
    ports: list[Manifest] = [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}]
    if part == "webhooks":
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
    return ports


def webhook_service(options: InstallOptions) -> Manifest:
    """Where API servers find the webhooks that are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": options.namespace, "labels": {_COMPONENT: "webhooks"}},
        "spec": {
            "selector": selector_of("webhooks"),
            "ports": [{"name": "webhooks", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": "webhooks"}],
        },
    }


def _probe(path: str, **times: Any) -> Manifest:
    return {"httpGet": {"path": path, "port": "metrics"}, **times}


def disruption_budget(options: InstallOptions, part: str) -> Manifest:
    """Nodes may be drained, one at a time. A single replica may go too: what runs goes on without it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{OURS}-{part}", "namespace": options.namespace, "labels": {_COMPONENT: part}},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_of(part)}},
    }


def network_policy(options: InstallOptions) -> Manifest:
    """In: probes, metrics and reviews. Out: the API server, by its address, so that no name has to be looked up."""
    ports = (PORT, WEBHOOK_PORT) if options.webhooks else (PORT,)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": OURS, "namespace": options.namespace},
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": OURS}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}],
            "egress": [{"ports": [{"protocol": "TCP", "port": port} for port in options.api_ports]}],
        },
    }
