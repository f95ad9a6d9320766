"""Quantities as the real API server reads and writes them, compared with `model.quantity` and the embedded server.

A LimitRange for pods holds any number of quantities in resource lists, which are rounded to thousandths, and takes
negative ones too; the size limits of volumes are not rounded. What is no quantity goes alone.
"""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from allhands.model.quantity import Format, Quantity, QuantityError, canonical, canonical_resource
from tests.conformance.client import Answer, Client, Server

if TYPE_CHECKING:
    from collections.abc import Iterator


def words(text: str) -> list[str]:
    return text.split()


SOAK = os.environ.get("ALLHANDS_SOAK") == "1"
SUFFIXES = ["", *words("n u m k M G T P E Ki Mi Gi Ti Pi Ei e3 E3 e-3 e7")]
NUMBERS = words("""
    0 1 8 9 00 01 10 100 1000 1024 1500 2000 999 1001 123456789 0.5 .5 5. 1.0 1.10 1.500 0.001 0.0001 0.0000000001
    1.0000000001 0.1234567890123 9223372036854775807 9223372036854775808 18446744073709551616 999999999999999999
    12345678901234567890123 +1 -1 -0 +0 -0.5 -1.5 -1000 -1024 -9223372036854775809
""")
OTHER_QUANTITIES = [
    *(" 1", "1 ", "\u00a01\u2003"),
    *words("1e+3 1e03 1e0 0e5 0Ki 0k -0m 1E 1e9 1.5e1 1e-9 1e-10 1e18 1e19 1e21 1e30 100e18 0.1e1 1000000e-6"),
    *words("8Ei 7.9999Ei 0.1Ki 0.0001Ki 1023Ki - + . Ki k -m +Gi"),
]
NO_QUANTITIES = [
    *("", " ", "\n1", "1\t", "1 k", "\u0663"),
    *words("e 1K 1ki 1mi 1Zi 1Y 1kk 1,5 1_000 0x10 1e 1e3k 1e1.5 --1 +-1 1- 1..5 1.5.5 one 1m1 1ee3 1Eie3"),
    *words("NaN inf"),
]
NUMBERS_IN_JSON = words("1 0 -3 1.5 1.50 0.0001 12345678901234567890 -0 2.0")
"""None with an exponent: the real server repeats it, ours knows only the value of a bare number and writes that."""
OTHER_JSON = ("true", "{}", "[]", "[1]", '{"a": 1}', "null")

numbers = st.from_regex(r"\A[+-]?(0{0,3}[0-9]{1,24}(\.[0-9]{0,14})?|\.[0-9]{1,14})\Z")
suffixes = st.sampled_from(SUFFIXES) | st.from_regex(r"\A[eE][+-]?[0-9]{1,2}\Z")
texts = st.builds(lambda number, suffix: number + suffix, numbers, suffixes)
near_texts = st.text(alphabet="+-.0123456789eEinumkKMGTP ", max_size=12)


class Asker:
    """Asks both servers, in one namespace that is new on both."""

    def __init__(self, real: Client, embedded: Client, namespace: str) -> None:
        self._clients = (real, embedded)
        self._namespace = namespace
        self._numbers = itertools.count()

    def begin(self) -> None:
        for answer in self.post("/api/v1/namespaces", json.dumps({"metadata": {"name": self._namespace}})):
            assert answer.status == 201, answer

    def post(self, path: str, text: str) -> list[Answer]:
        return [self._ask(client, "POST", path, text.encode()) for client in self._clients]

    def kept_in_lists(self, values: list[str]) -> list[list[str]]:
        """What each server makes of JSON values, one after the other, as it answers and as it keeps them."""
        name = f"q{next(self._numbers)}"
        entries = ", ".join(f'"example.com/q{place}": {value}' for place, value in enumerate(values))
        path = f"/api/v1/namespaces/{self._namespace}/limitranges"
        text = f'{{"metadata": {{"name": "{name}"}}, "spec": {{"limits": [{{"type": "Pod", "max": {{{entries}}}}}]}}}}'
        found = []
        for client in self._clients:
            made = self._ask(client, "POST", path, text.encode())
            assert made.status == 201, f"{client.server.name} refuses some of {values}: {made.body}"
            kept = self._ask(client, "GET", f"{path}/{name}")
            shown = [answer.body["spec"]["limits"][0]["max"] for answer in (made, kept)]
            assert shown[0] == shown[1], f"{client.server.name} answers otherwise than it keeps"
            found.append([shown[0][f"example.com/q{place}"] for place in range(len(values))])
        return found

    def refusals_in_lists(self, value: str) -> list[Answer]:
        path = f"/api/v1/namespaces/{self._namespace}/limitranges?dryRun=All"
        text = f'{{"metadata": {{"name": "n"}}, "spec": {{"limits": [{{"type": "Pod", "max": {{"cpu": {value}}}}}]}}}}'
        return self.post(path, text)

    def kept_in_volumes(self, values: list[str]) -> list[list[str]]:
        volumes = [{"name": f"v{place}", "emptyDir": {"sizeLimit": value}} for place, value in enumerate(values)]
        spec = {"volumes": volumes, "containers": [{"name": "c", "image": "i"}]}
        body = json.dumps({"metadata": {"name": "p"}, "spec": spec}, ensure_ascii=False)
        found = []
        # Elsewhere, because a real server holds pods to the limit ranges of their namespace.
        for answer in self.post("/api/v1/namespaces/default/pods?dryRun=All", body):
            assert answer.status == 201, answer.body
            found.append([volume["emptyDir"]["sizeLimit"] for volume in answer.body["spec"]["volumes"]])
        return found

    def _ask(self, client: Client, method: str, path: str, body: bytes | None = None) -> Answer:
        headers = {"Authorization": f"Bearer {client.server.token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return client.request(method, path, headers, body)


@pytest.fixture(scope="module")
def asker(real: Server, embedded: Server) -> Iterator[Asker]:
    with Client(real) as one, Client(embedded) as other:
        asker = Asker(one, other, f"quantities-{os.urandom(3).hex()}")
        asker.begin()
        yield asker


def quoted(text: str) -> str:
    """As JSON without escapes for letters: the real server reads quantities without undoing escapes."""
    return json.dumps(text, ensure_ascii=False)


def quantity_or_none(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def overflows(quantity: Quantity) -> bool:
    """Whether its canonical form would need a suffix beyond E: the real server drops it, and with it the value."""
    return quantity.format is Format.DECIMAL_SI and quantity.nanos != 0 and quantity.nanos % 10**30 == 0


def check_kept(asker: Asker, found: list[str]) -> None:
    theirs, ours = asker.kept_in_lists([quoted(text) for text in found])
    wanted = [canonical_resource(text) for text in found]
    assert list(zip(found, theirs, strict=True)) == list(zip(found, wanted, strict=True))
    assert list(zip(found, theirs, strict=True)) == list(zip(found, ours, strict=True))


def check_refused(asker: Asker, value: str) -> None:
    theirs, ours = asker.refusals_in_lists(value)
    assert theirs.status == 400, f"the real server takes {value}"
    assert ours == theirs


def table() -> list[str]:
    found = [number + suffix for number in NUMBERS for suffix in SUFFIXES] + list(OTHER_QUANTITIES)
    return [text for text in found if (known := quantity_or_none(text)) is not None and not overflows(known)]


def test_the_table_is_large_and_nearly_all_of_it_are_quantities() -> None:
    assert len(table()) > 750


def test_both_servers_and_the_model_write_quantities_the_same(asker: Asker) -> None:
    check_kept(asker, table())


def test_quantities_outside_of_resource_lists_are_not_rounded(asker: Asker) -> None:
    found = [text for text in table() if Quantity.parse(text) >= Quantity(0)]
    theirs, ours = asker.kept_in_volumes(found)
    wanted = [canonical(text) for text in found]
    assert list(zip(found, theirs, strict=True)) == list(zip(found, wanted, strict=True))
    assert list(zip(found, theirs, strict=True)) == list(zip(found, ours, strict=True))


@pytest.mark.parametrize("text", NO_QUANTITIES, ids=repr)
def test_what_is_no_quantity_is_refused_by_all_in_the_same_words(text: str, asker: Asker) -> None:
    assert quantity_or_none(text) is None
    check_refused(asker, quoted(text))


def test_numbers_in_json_are_quantities_by_their_text(asker: Asker) -> None:
    theirs, ours = asker.kept_in_lists(list(NUMBERS_IN_JSON))
    assert list(zip(NUMBERS_IN_JSON, theirs, strict=True)) == list(zip(NUMBERS_IN_JSON, ours, strict=True))


@pytest.mark.parametrize("value", OTHER_JSON)
def test_other_json_values_get_the_same_answer(value: str, asker: Asker) -> None:
    theirs, ours = ([answer.status, _without_times(answer.body)] for answer in asker.refusals_in_lists(value))
    assert ours == theirs


@settings(
    max_examples=200 if SOAK else 12,
    deadline=None,
    database=None,
    derandomize=not SOAK,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SOAK else [])],
    suppress_health_check=list(HealthCheck),
)
@example(found=["1e-1"], near=["1e+", "1.e3"])
@given(found=st.lists(texts, min_size=30, max_size=60, unique=True), near=st.lists(near_texts, max_size=15))
def test_random_texts_get_the_same_answer_from_all(found: list[str], near: list[str], asker: Asker) -> None:
    known = {text: quantity_or_none(text) for text in [*found, *near]}
    check_kept(asker, [text for text, quantity in known.items() if quantity is not None and not overflows(quantity)])
    for text, quantity in known.items():
        if quantity is None:
            check_refused(asker, quoted(text))


def _without_times(body: Any) -> Any:
    hidden = ("uid", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in hidden}
    return {**body, "metadata": metadata}
