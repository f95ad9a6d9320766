"""Whatever stands in a kubeconfig, it is understood or refused in words; nothing else happens."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.kube.kubeconfig import Access, KubeconfigError, load
from tests.depth import examples

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-10, 10)
    | st.text(alphabet="ab/:.%=-\n", max_size=8)
    | st.sampled_from(["https://x", "http://[::1", "QQ==", "client.authentication.k8s.io/v1", "Never", "\x00"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def entries(field: str, *names: str) -> st.SearchStrategy[Any]:
    """Entries that are nearly right."""
    inner = st.fixed_dictionaries({}, optional=dict.fromkeys(names, ANYTHING))
    entry = st.fixed_dictionaries({"name": st.just("a")}, optional={field: inner | ANYTHING})
    return st.lists(entry | ANYTHING, max_size=2) | ANYTHING


EXEC = st.fixed_dictionaries(
    {"apiVersion": st.just("client.authentication.k8s.io/v1"), "command": st.just("tool")},
    optional=dict.fromkeys(("args", "env", "interactiveMode", "installHint", "provideClusterInfo"), ANYTHING),
)
DOCUMENTS = st.fixed_dictionaries(
    {"current-context": st.just("a"), "contexts": st.just([{"name": "a", "context": {"cluster": "a", "user": "a"}}])},
    optional={
        "clusters": entries(
            "cluster", "server", "certificate-authority-data", "proxy-url", "extensions", "insecure-skip-tls-verify"
        )
        | st.just([{"name": "a", "cluster": {"server": "https://x"}}]),
        "users": entries(
            "user", "token", "tokenFile", "client-key-data", "client-certificate", "exec", "as", "as-user-extra"
        )
        | EXEC.map(lambda it: [{"name": "a", "user": {"exec": it}}]),
    },
)


@settings(max_examples=examples(300))
@given(document=DOCUMENTS | ANYTHING)
def test_any_document_is_understood_or_refused_with_its_file(document: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        try:
            assert isinstance(load(path), Access)
        except KubeconfigError as error:
            assert str(error).startswith(str(path))


@settings(max_examples=examples(100))
@given(raw=st.binary(max_size=100))
def test_any_bytes_are_refused_with_their_file(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_bytes(raw)
        try:
            load(path)
        except KubeconfigError as error:
            assert str(error).startswith(str(path))
