"""Which form of an answer an Accept header asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.server.accept import STREAMED, Form, check_route, error_form, form_of, wants_aggregated_discovery

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"

FORMS = {
    "nothing asked": ("", Form()),
    "anything": ("*/*", Form()),
    "plain JSON": ("application/json", Form()),
    "YAML": ("application/yaml", Form(yaml=True)),
    "what kubectl get asks for": (KUBECTL, Form(shown="Table")),
    "an unknown table version, then JSON": ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
    "an old table": ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form(shown="Table", version="v1beta1")),
    "metadata only": (
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        Form(shown="PartialObjectMetadata"),
    ),
    "protobuf if possible, else JSON": (f"{PROTOBUF},application/json", Form()),
    "the heavier one wins": ("application/yaml;q=0.5,application/json", Form()),
    "weight zero means no": ("application/json;q=0,application/yaml", Form(yaml=True)),
    "a weight that is none": ("application/json;q=x", Form()),
}

REFUSED = {
    "protobuf only": PROTOBUF,
    "a web page": "text/html",
    "a table of an unknown version": "application/json;as=Table;v=v9;g=meta.k8s.io",
    "an unknown transformation": "application/json;as=Foo;v=v1;g=meta.k8s.io",
}


@pytest.mark.parametrize(("header", "form"), FORMS.values(), ids=FORMS)
def test_the_form_of(header: str, form: Form) -> None:
    assert form_of(header) == form


@pytest.mark.parametrize("header", REFUSED.values(), ids=REFUSED)
def test_not_acceptable(header: str) -> None:
    with pytest.raises(StatusError, match="only the following media types are accepted: application/json") as refusal:
        form_of(header)
    assert (refusal.value.code, refusal.value.reason) == (406, "NotAcceptable")


def test_a_stream_is_never_yaml() -> None:
    with pytest.raises(StatusError, match="application/json;stream=watch"):
        form_of("application/yaml", stream=True)


@pytest.mark.parametrize("header", ["", "*/*", "application/yaml", "text/html, application/json;q=0.5", PROTOBUF])
def test_the_router_lets_pass_what_names_a_served_type(header: str) -> None:
    check_route(header)


@pytest.mark.parametrize("header", ["text/html", "application/*", ";;,"])
def test_the_router_refuses_the_rest_with_what_there_is(header: str) -> None:
    with pytest.raises(StatusError) as refusal:
        check_route(header, ("application/json", *STREAMED))
    assert refusal.value.message == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


@pytest.mark.parametrize(
    ("header", "form"),
    [("application/yaml", Form(yaml=True)), (KUBECTL, Form()), ("text/html", Form()), (TABLE, Form()), ("", Form())],
)
def test_the_form_of_a_refusal(header: str, form: Form) -> None:
    assert error_form(header) == form


@given(st.text())
def test_any_header_is_served_or_refused(header: str) -> None:
    try:
        form_of(header)
    except StatusError as refusal:
        assert refusal.code == 406


def test_aggregated_discovery_is_preferred_only_if_it_comes_first() -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert wants_aggregated_discovery(f"{aggregated},application/json") == "v2"
    assert wants_aggregated_discovery("application/json") == ""
    assert wants_aggregated_discovery(f"application/json,{aggregated}") == ""
    assert wants_aggregated_discovery("") == ""
