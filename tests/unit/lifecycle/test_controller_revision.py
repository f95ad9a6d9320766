"""How revisions are called, found again and restored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.controller_revision import Revision, data_of, digest_of
from allhands.lifecycle.observed import Template

KNOWN = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "resources": {},
                "volumeMounts": [{"name": "www", "mountPath": "/data"}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
}


def test_a_revision_has_the_name_that_kubernetes_gives_it() -> None:
    """Seen in kube-controller-manager v1.36.3 for the same StatefulSet."""
    assert digest_of(data_of(msgspec.convert(KNOWN, Template)), 0) == "7c765cb4b"


def test_a_collision_makes_another_name_of_the_same_content() -> None:
    data = data_of(msgspec.convert(KNOWN, Template))
    assert len({digest_of(data, collisions) for collisions in range(5)}) == 5


def test_what_a_template_was_comes_back_whole() -> None:
    template = msgspec.convert(KNOWN, Template)
    assert Revision(data=data_of(template)).template == template


@pytest.mark.parametrize("data", [{}, {"spec": 3}, {"spec": {"template": []}}, {"spec": {"template": {"spec": "x"}}}])
def test_a_revision_made_by_hand_may_hold_no_template(data: dict[str, Any]) -> None:
    assert Revision(data=data).template is None
