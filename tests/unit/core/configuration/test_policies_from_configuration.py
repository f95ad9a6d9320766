"""What people write becomes a policy, or an error that says where, what, and what is allowed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.configuration import ConfigurationError
from allhands.api.policy import API_VERSION, DEFAULTS, KIND, MAX_WEIGHT, Backfill, QueueChoice, SchedulingPolicy
from allhands.core.configuration.building import build_policy, load_policy
from allhands.core.plugins import PLUGINS, Plugin, Plugins, Point
from allhands.core.policy import DEFAULT, Policy
from allhands.core.quota.order import POLICIES


def load(**fields: Any) -> Policy:
    return load_policy({"apiVersion": API_VERSION, "kind": KIND, **fields})


def errors(document: object) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        load_policy(document)
    return [str(it) for it in error.value.errors]


def errors_of(**fields: Any) -> list[str]:
    return errors({"apiVersion": API_VERSION, "kind": KIND, **fields})


def names(policy: Policy) -> dict[str, list[Any]]:
    """Every plugin of a policy by its place, with its weight."""
    return {
        "scores": [(it.name, weight) for it, weight in policy.scores],
        "static_scores": [(it.name, weight) for it, weight in policy.static_scores],
        **{
            field: [it.name for it in getattr(policy, field)]
            for field in ("filters", "orders", "gates", "limits", "guards")
        },
    }


def test_nothing_said_is_the_default_policy() -> None:
    policy = load()
    for field in Policy.__struct_fields__:
        assert getattr(policy, field) is getattr(DEFAULT, field) or field == "configuration"
    assert policy.configuration == DEFAULTS == DEFAULT.configuration


def test_the_default_policy_is_made_of_registered_plugins_only() -> None:
    registered = {plugin.name for plugin in PLUGINS}
    for plugins in names(DEFAULT).values():
        assert {it[0] if isinstance(it, tuple) else it for it in plugins} <= registered


def test_what_is_said_replaces_its_default_and_nothing_else() -> None:
    policy = load(backfill="conservative", queueChoice="fair", preempts=False, startTimeoutSeconds=60)
    assert policy.backfill is Backfill.CONSERVATIVE
    assert policy.queue_choice is QueueChoice.FAIR
    assert (policy.preempts, policy.reclaims) == (False, True)
    assert policy.start_timeout_seconds == 60
    assert names(policy) == names(DEFAULT)


def test_an_empty_list_means_none() -> None:
    policy = load(scores=[], orders=[], guards=[])
    assert not any(names(policy).values())


def test_scores_of_both_kinds_are_written_in_one_list_and_weight_0_leaves_one_out() -> None:
    policy = load(
        scores=[{"name": "taints", "weight": 3}, {"name": "balanced", "weight": 0}, {"name": "binpack", "weight": 2}]
    )
    assert names(policy)["scores"] == [("binpack", 2)]
    assert names(policy)["static_scores"] == [("taints", 3)]


def test_gates_of_both_kinds_are_written_in_one_list() -> None:
    policy = load(gates=[{"name": "maxrunning", "arguments": {"groups": 5}}, {"name": "minpriority"}])
    assert names(policy)["gates"] == ["minpriority"]
    assert names(policy)["limits"] == ["maxrunning"]


def test_an_unknown_plugin_is_an_error_that_lists_the_known_ones() -> None:
    (error,) = errors_of(orders=[{"name": "priority"}, {"name": "prioritty"}])
    assert error.startswith('orders[1].name: Unsupported value: "prioritty": there is no such plugin here; there are ')
    assert "creation" in error
    assert "priority" in error


def test_a_plugin_in_the_wrong_place_is_told_what_it_is() -> None:
    (error,) = errors_of(scores=[{"name": "creation"}])
    assert "it is a GroupOrder; here there are balanced, binpack" in error


def test_scores_that_are_always_asked_point_to_their_weight() -> None:
    (error,) = errors_of(scores=[{"name": "spread"}])
    assert "neighbourWeight" in error


def test_every_mistake_is_found_at_once_with_its_path() -> None:
    found = errors_of(
        scores=[{"name": "binpack", "arguments": {"resources": {"cpu": "much"}, "cpu": 2}}, {"name": "nope"}],
        gates=[{"name": "maxrunning", "arguments": {"groups": -1}}],
    )
    assert found == [
        "scores[0].arguments.cpu: Forbidden: there is no such field; there are resources",
        'scores[0].arguments.resources[cpu]: Invalid value: "much": expected a whole number',
        next(it for it in found if it.startswith("scores[1].name: Unsupported value")),
        "gates[0].arguments.groups: Invalid value: -1: must be at least 0",
    ]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"backfill": False}, 'backfill: Unsupported value: false: supported values: "everyone", "easy"'),
        ({"preempts": "yes"}, 'preempts: Invalid value: "yes": expected true or false'),
        ({"halfLifeSeconds": -1}, "halfLifeSeconds: Invalid value: -1: must be at least 0"),
        ({"maxReservations": 10**30}, "must be at most 1000000"),
        ({"startTimeoutSeconds": 2.5}, "startTimeoutSeconds: Invalid value: 2.5: expected a whole number"),
        ({"retryBaseSeconds": 601}, "retryBaseSeconds: Invalid value: 601: must not exceed retryMaxSeconds"),
        ({"retryBaseSeconds": 5, "retryMaxSeconds": 4}, "retryBaseSeconds (5) must not exceed retryMaxSeconds (4)"),
        ({"scores": {"name": "binpack"}}, 'scores: Invalid value: "a mapping": expected a list'),
        ({"scores": [{"weight": 1}]}, "scores[0].name: Required value: text"),
        ({"scores": [{"name": "binpack"}, {"name": "binpack"}]}, "scores: binpack is listed twice"),
        ({"scores": [{"name": ""}]}, 'scores[0].name: Invalid value: "": must not be empty'),
        ({"scores": [{"name": "binpack", "weight": MAX_WEIGHT + 1}]}, "scores[0].weight: Invalid value: 1000001"),
        ({"neighbourWeight": MAX_WEIGHT}, f"at most {MAX_WEIGHT} is allowed"),
        ({"scoers": []}, "scoers: Forbidden: there is no such field; there are apiVersion, backfill"),
        ({"apiVersion": "allhands.dev/v2"}, '"allhands.dev/v2": supported values: "allhands.dev/v1alpha1"'),
        ({"kind": "Policy"}, 'kind: Unsupported value: "Policy": supported values: "SchedulingPolicy"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_bad_values_are_refused_with_what_is_allowed(fields: dict[str, Any], error: str) -> None:
    assert any(error in it for it in errors_of(**fields))


@pytest.mark.parametrize("document", [None, [], "text", 5, {}, {"apiVersion": API_VERSION}, {5: 6}, {"kind": KIND}])
def test_what_is_no_policy_is_refused(document: object) -> None:
    assert errors(document)


def test_a_mistake_that_is_huge_is_told_briefly() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep] * 3
    assert all(len(it) < 2000 for it in errors_of(backfill=deep))
    assert all(len(it) < 2000 for it in errors_of(scores=[{"name": "x" * 10**6}]))
    assert all(len(it) < 2000 for it in errors_of(scores=[{"name": "binpack", "arguments": {"resources": deep}}]))


def test_a_configuration_survives_being_written_and_read() -> None:
    policy = load(scores=[{"name": "binpack", "weight": 4}], backfill="everyone", gates=[])
    text = msgspec.json.encode(policy.configuration)
    again = build_policy(msgspec.json.decode(text, type=SchedulingPolicy))
    assert names(again) == names(policy)
    assert again.configuration == policy.configuration


def test_plugins_from_outside_can_be_chosen_too() -> None:
    class Coin:
        """Heads or tails."""

        name = "coin"

        def rank(self, *_: object) -> int:
            return 0

    more = PLUGINS.with_more([Plugin("coin", Point.ORDER, Coin)])
    policy = load_policy({"apiVersion": API_VERSION, "kind": KIND, "orders": [{"name": "coin"}]}, more)
    assert isinstance(policy.orders[0], Coin)


def test_two_plugins_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="two plugins are registered as"):
        Plugins([*PLUGINS, *PLUGINS.at(Point.SCORE)])


def test_every_way_to_choose_a_queue_is_one_that_queues_are_ranked_by() -> None:
    assert {choice.value for choice in QueueChoice} == set(POLICIES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [field.encode_name for field in msgspec.structs.fields(SchedulingPolicy)][2:]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_whatever_is_written_gives_a_policy_or_an_error_with_a_path(fields: dict[str, Any]) -> None:
    try:
        load(**fields)
    except ConfigurationError as error:
        assert error.errors
        assert all(it.path for it in error.errors)
