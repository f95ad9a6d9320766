"""Rules of custom kinds that are written in CEL: what they see, what they refuse, and that none runs without end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.cel.expression import MAX_STEPS, EvaluationError, NotCompiledError, compiled
from allhands.api.cel.rules import ExpressionRules
from allhands.api.cel.values import as_seen, escaped, ordered_like
from tests.depth import examples

RULES = "x-kubernetes-validations"


def _refusals(schema: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    return [str(error) for error in ExpressionRules(schema, is_resource=False).errors(new, old)]


@pytest.mark.parametrize(
    "rule",
    [
        "quantity('1Gi') == quantity('1024Mi')",
        "quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi')) == 0",
        "quantity('3').sub(1).asInteger() == 2",
        "quantity('-500m').sign() == -1 && !quantity('500m').isInteger()",
        "quantity('1500m').asApproximateFloat() == 1.5",
        "isQuantity('1k') && !isQuantity('1z')",
        "ip('::1').isLoopback() && ip('fe80::1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('10.0.0.1').family() == 4 && ip('8.8.8.8').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()",
        "isIP('::1') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && ip.isCanonical('::1') && !ip.isCanonical('0::1')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('11.0.0.0/16'))",
        "cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('::/0') && !isCIDR('10.0.0.1')",
        "url('https://me@a.b:80/c%20d?e=1&e=2').getHost() == 'a.b:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('/a').getScheme() == ''",
        "url('https://a/?e=1&e=2').getQuery() == {'e': ['1', '2']} && url('https://a/b c').getHost() == 'a' || true",
        "isURL('https://a') && !isURL('a') && !isURL('https://a:b/')",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2].sum() == 3 && [3, 1].min() == 1 && ['a', 'b'].max() == 'b'",
        "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2]) && !sets.contains([1], [2])",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'a1b22'.findAll('[0-9]', 1) == ['1']",
        "'a,b'.split(',') == ['a', 'b'] && math.greatest(1, 2) == 2 && optional.none().orValue(true)",
    ],
)
def test_the_functions_of_kubernetes_are_there(rule: str) -> None:
    assert compiled(rule, "BOOL").result({"self": {}}, 1) is True


@pytest.mark.parametrize(
    "rule", ["quantity('x') == quantity('1')", "'plain'.isLessThan('text')", "[].min() == 1", "ip('x') == ip('y')"]
)
def test_what_is_no_value_of_its_type_is_an_error_and_no_crash(rule: str) -> None:
    with pytest.raises(EvaluationError):
        compiled(rule, "BOOL").result({"self": {}}, 1)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "plain"),
        ("with-dash", "with__dash__dash"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("__x", "__underscores__x"),
        ("namespace", "__namespace__"),
        ("0x", None),
        ("ä", None),
        ("", None),
    ],
)
def test_fields_have_the_names_that_a_rule_can_write(name: str, written: str | None) -> None:
    assert escaped(name) == written


def test_a_rule_sees_only_what_the_schema_names() -> None:
    schema = {
        "type": "object",
        "properties": {
            "known": {"type": "number"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    assert as_seen({"known": 1, "unknown": 2, "free": {"any": 1}}, schema) == {"known": 1.0, "free": {}}
    assert type(as_seen({"known": 1}, schema)["known"]) is float


def test_the_names_of_an_object_can_be_read_and_no_other_metadata() -> None:
    whole = ExpressionRules({"type": "object", RULES: [{"rule": "self.metadata.labels.a == 'b'"}]})
    assert [str(error) for error in whole.errors({"metadata": {"name": "x", "labels": {"a": "b"}}})] == [
        "<nil>: Invalid value: \"object\": no such key: labels evaluating rule: self.metadata.labels.a == 'b'"
    ]


def test_what_was_broken_before_is_forgiven_while_it_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"n": {"type": "integer"}}, RULES: [{"rule": "self.n < 5"}]}
        },
    }
    broken = {"a": {"n": 7}, "b": 1}
    assert _refusals(schema, broken, {"a": {"n": 7}, "b": 2}) == []
    assert _refusals(schema, broken, {"a": {"n": 8}}) == ["a: Invalid value: failed rule: self.n < 5"]
    assert _refusals(schema, broken) == ["a: Invalid value: failed rule: self.n < 5"]


def test_the_order_of_sets_and_maps_is_no_change() -> None:
    items = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "of": {"type": "array", "x-kubernetes-list-type": "set"}},
    }
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": items,
        RULES: [{"rule": "self == oldSelf"}],
    }
    old = [{"name": "a", "of": [1, 2]}, {"name": "b"}]
    assert _refusals(schema, [{"name": "b"}, {"name": "a", "of": [2, 1]}], old) == []
    assert _refusals(schema, [{"name": "b"}, {"name": "a", "of": [2, 3]}], old) != []
    assert _refusals({**schema, "x-kubernetes-list-type": "atomic"}, old[::-1], old) != []


@settings(max_examples=examples(100))
@given(st.lists(st.integers(0, 9), unique=True), st.randoms(use_true_random=False))
def test_an_old_set_takes_the_order_of_the_new_and_loses_nothing(items: list[int], chance: Any) -> None:
    old = items[:]
    chance.shuffle(old)
    schema = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
    assert ordered_like(old, items, schema) == items
    assert sorted(ordered_like([*old, 10, 11], items, schema)) == sorted([*items, 10, 11])


def test_loops_in_loops_over_a_long_list_are_not_begun() -> None:
    rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"
    schema = {"type": "array", "items": {"type": "integer"}, RULES: [{"rule": rule}, {"rule": "false"}]}
    assert len(_refusals(schema, [1, 2, 3])) == 1, "a few are looked at, and the other rule too"
    (only,) = _refusals(schema, list(range(1000)))
    assert "call cost exceeds limit" in only, "the rules after it are not asked"
    assert MAX_STEPS >= 1000**2, "two loops over a thousand are usual"


@pytest.mark.parametrize("rule", ["'x)' + \".all(\" == 'y'", "self.l.all(a, a != '(') && self.l.exists(b, b == ')')"])
def test_what_stands_in_quotes_is_no_loop(rule: str) -> None:
    assert compiled(rule, "BOOL").loops <= 1


def test_a_message_that_cannot_be_worked_out_gives_way_to_the_written_one() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        RULES: [{"rule": "self.n < 5", "message": "too many", "messageExpression": "'n' + string(self.none)"}],
    }
    assert _refusals(schema, {"n": 7}) == ["<nil>: Invalid value: too many"]
    schema[RULES] = [{"rule": "self.n < 5", "messageExpression": "'a\\nb'"}]
    assert _refusals(schema, {"n": 7}) == ["<nil>: Invalid value: failed rule: self.n < 5"]


@pytest.mark.parametrize("text", ["", "1 +", "self.all(", "nobody()", "'a' + 1 == 'b'", "self.all(k, v, true)"])
def test_what_is_no_expression_says_so(text: str) -> None:
    with pytest.raises(NotCompiledError, match="compilation failed"):
        compiled(text, "BOOL")


def test_a_rule_that_was_stored_and_does_not_compile_refuses_objects_and_does_not_crash() -> None:
    (only,) = _refusals({"type": "object", RULES: [{"rule": "1 +"}]}, {})
    assert "rule compile error" in only


@pytest.mark.parametrize("text", ["(" * 20_000 + "true" + ")" * 20_000, "!" * 100_001 + "true", "[" * 5_000])
def test_one_that_is_nested_without_measure_is_refused(text: str) -> None:
    with pytest.raises(NotCompiledError):
        compiled(text, "BOOL")


@settings(max_examples=examples(200))
@given(st.text(max_size=40))
def test_any_text_either_compiles_or_says_why_not(text: str) -> None:
    try:
        program = compiled(text, "BOOL")
    except NotCompiledError:
        return
    try:
        program.result({"self": {}}, 1)
    except EvaluationError:
        return
