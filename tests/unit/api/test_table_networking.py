"""The cells of services, endpoints and ingresses. Objects are as a server stores them; the cells are a real one's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from allhands.api.tables.builtin import printer_for

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AGE = "3d2h"
CREATED = "2026-02-26T10:00:00Z"
EXPRESSIONS = [
    {"key": "z", "operator": "Exists"},
    {"key": "y", "operator": "DoesNotExist"},
    {"key": "b", "operator": "In", "values": ["two", "one"]},
    {"key": "c", "operator": "NotIn", "values": ["x"]},
]
Case = tuple[str, str, dict[str, Any], list[Any]]

CASES: dict[str, Case] = {
    "a service inside the cluster": (
        "",
        "Service",
        {
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "10.0.0.9",
                "clusterIPs": ["10.0.0.9"],
                "ports": [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"},
            }
        },
        ["x", "ClusterIP", "10.0.0.9", "<none>", "80/TCP,53/UDP", AGE, "a=1,b=2"],
    ),
    "a headless service": (
        "",
        "Service",
        {"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}},
        ["x", "ClusterIP", "None", "<none>", "<none>", AGE, "<none>"],
    ),
    "a service on every node": (
        "",
        "Service",
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.0.0.10",
                "clusterIPs": ["10.0.0.10"],
                "externalIPs": ["1.1.1.1", "2.2.2.2"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
            }
        },
        ["x", "NodePort", "10.0.0.10", "1.1.1.1,2.2.2.2", "80:30080/TCP", AGE, "<none>"],
    ),
    "a load balancer that has no address yet": (
        "",
        "Service",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.0.0.11",
                "clusterIPs": ["10.0.0.11"],
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 80, "protocol": "TCP"}],
            }
        },
        ["x", "LoadBalancer", "10.0.0.11", "<pending>", "80/TCP", AGE, "<none>"],
    ),
    "a load balancer shows its addresses in order before the external ones": (
        "",
        "Service",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.0.0.12",
                "clusterIPs": ["10.0.0.12"],
                "externalIPs": ["1.1.1.1"],
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 80, "protocol": "TCP"}],
            },
            "status": {"loadBalancer": {"ingress": [{"hostname": "long.name.example.com"}, {"ip": "9.9.9.9"}]}},
        },
        [
            "x",
            "LoadBalancer",
            "10.0.0.12",
            "9.9.9.9,long.name.example.com,1.1.1.1",
            "80/TCP",
            AGE,
            "<none>",
        ],
    ),
    "a service that is a name elsewhere": (
        "",
        "Service",
        {"spec": {"type": "ExternalName", "externalName": "example.com"}},
        ["x", "ExternalName", "<none>", "example.com", "<none>", AGE, "<none>"],
    ),
    "endpoints without subsets": ("", "Endpoints", {}, ["x", "<none>", AGE]),
    "endpoints show three and count the rest": (
        "",
        "Endpoints",
        {
            "subsets": [
                {
                    "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                    "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}],
                }
            ]
        },
        ["x", "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...", AGE],
    ),
    "endpoints without ports show addresses": (
        "",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]},
        ["x", "10.0.0.1", AGE],
    ),
    "an endpoint slice shows ports by number, else by name": (
        "discovery.k8s.io",
        "EndpointSlice",
        {
            "addressType": "IPv4",
            "ports": [
                {"name": "", "port": 80, "protocol": "TCP"},
                {"name": "b", "protocol": "TCP"},
                {"name": "c", "port": 82, "protocol": "TCP"},
                {"name": "d", "port": 83, "protocol": "TCP"},
            ],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}],
        },
        ["x", "IPv4", "80,b,82 + 1 more...", "10.0.0.1,10.0.0.2", AGE],
    ),
    "an endpoint slice may be empty": (
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": []},
        ["x", "IPv4", "<unset>", "<unset>", AGE],
    ),
    "an ingress shows three hosts, and counts the rules beyond": (
        "networking.k8s.io",
        "Ingress",
        {
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{"host": "a.x"}, {}, {"host": "b.x"}, {"host": "c.x"}, {"host": "d.x"}],
                "tls": [{"hosts": ["a.x"]}],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}]}},
        },
        ["x", "nginx", "a.x,b.x,c.x + 2 more...", "9.9.9.9", "80, 443", AGE],
    ),
    "an ingress for every host": (
        "networking.k8s.io",
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        ["x", "<none>", "*", "", "80", AGE],
    ),
    "a default ingress class with parameters": (
        "networking.k8s.io",
        "IngressClass",
        {
            "metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {
                "controller": "x.io/c",
                "parameters": {"apiGroup": "x.io", "kind": "P", "name": "n", "scope": "Cluster"},
            },
        },
        ["x (default)", "x.io/c", "P.x.io/n", AGE],
    ),
    "a network policy shows its selector": (
        "networking.k8s.io",
        "NetworkPolicy",
        {"spec": {"podSelector": {"matchLabels": {"a": "1"}, "matchExpressions": EXPRESSIONS}}},
        ["x", "a=1,b in (one,two),c notin (x),!y,z", AGE],
    ),
}


def stored(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **document.get("metadata", {})}
    return {**document, "metadata": metadata}


@pytest.mark.parametrize(("group", "kind", "document", "expected"), CASES.values(), ids=CASES.keys())
def test_cells(group: str, kind: str, document: dict[str, Any], expected: list[Any]) -> None:
    assert printer_for(group, kind).row(stored(document), NOW) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, "<none>", id="no selector selects nothing"),
        pytest.param({}, "<none>", id="an empty selector selects all"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]}, "<error>", id="unknown operator"
        ),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "In"}]}, "<error>", id="In needs values"),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            "<error>",
            id="Exists takes no values",
        ),
    ],
)
def test_selectors_at_the_edge(selector: dict[str, Any] | None, expected: str) -> None:
    document = {"metadata": {"name": "x"}, "spec": {"podSelector": selector}}
    assert printer_for("networking.k8s.io", "NetworkPolicy").row(document, NOW)[1] == expected
