"""How bindings of roles, and what the server asks before it admits a write, are shown.

Roles and cluster roles themselves are missing on purpose: the real server shows them with the default printer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import age_of, list_at, name_of, text_at
from allhands.api.tables.column import AGE, NAME, Column, Printers, TablePrinter, described

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest


def role_binding_row(binding: Manifest, now: datetime) -> list[Json]:
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in list_at(binding, "subjects"):
        kind, name = text_at(subject, "kind"), text_at(subject, "name")
        if kind in subjects:
            subjects[kind].append(f"{text_at(subject, 'namespace')}/{name}" if kind == "ServiceAccount" else name)
    role = f"{text_at(binding, 'roleRef', 'kind')}/{text_at(binding, 'roleRef', 'name')}"
    return [name_of(binding), role, age_of(binding, now), *(", ".join(names) for names in subjects.values())]


def webhook_row(configuration: Manifest, now: datetime) -> list[Json]:
    return [name_of(configuration), len(list_at(configuration, "webhooks")), age_of(configuration, now)]


def _binding_columns(kind: str, role_description: str) -> tuple[Column, ...]:
    subjects = ("Users", "Groups", "ServiceAccounts")
    return (
        NAME,
        described("Role", role_description),
        AGE,
        *(described(subject, f"{subject} in the {kind}", priority=1) for subject in subjects),
    )


_WEBHOOKS: Final = TablePrinter(
    (
        NAME,
        described(
            "Webhooks",
            "Webhooks indicates the number of webhooks registered in this configuration",
            type="integer",
        ),
        AGE,
    ),
    webhook_row,
)

# The texts about roles are those of the retired v1beta1, which the server still quotes and no schema has any more.
PRINTERS: Final[Printers] = {
    ("rbac.authorization.k8s.io", "RoleBinding"): TablePrinter(
        _binding_columns(
            "roleBinding",
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the "
            "RoleRef cannot be resolved, the Authorizer must return an error.",
        ),
        role_binding_row,
    ),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): TablePrinter(
        _binding_columns(
            "clusterRoleBinding",
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the "
            "Authorizer must return an error.",
        ),
        role_binding_row,
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
}
