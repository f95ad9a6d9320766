"""Which proxy is used: the kubeconfig's, else the environment's unless the server is exempt or on this machine."""

from __future__ import annotations

import pytest

from allhands.kube.access import Access
from allhands.kube.kubeconfig import KubeconfigError
from allhands.kube.proxies import proxy_for


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://api.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://api.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, ""),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other, example"}, ""),
        ("https://api.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, ""),
        ("https://example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, "http://p:1"),
        ("https://myexample", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example"}, "http://p:1"),
        ("https://10.1.2.3:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,fd00::/8"}, "http://p:1"),
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example:443"}, "http://p:1"),
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example:6443"}, ""),
        ("https://api.example", {}, ""),
    ],
)
def test_the_environment_names_it(server: str, environment: dict[str, str], proxy: str) -> None:
    assert proxy_for(Access(server=server), environment) == proxy


def test_the_kubeconfig_comes_first() -> None:
    access = Access(server="https://127.0.0.1", proxy_url="http://q:2")
    assert proxy_for(access, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}) == "http://q:2"


def test_a_kind_that_is_not_supported_is_named() -> None:
    with pytest.raises(KubeconfigError, match="HTTPS_PROXY: socks5:// is not supported"):
        proxy_for(Access(server="https://api.example"), {"HTTPS_PROXY": "socks5://p:1"})
