"""What a Kubernetes object is while somebody works on it: plain JSON values, with the field names of the API.

At rest and on the wire an object is bytes; only who must look inside decodes it.
"""

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Any JSON value: None, bool, int, float, str, list or dict."""

Manifest: TypeAlias = dict[str, Any]
"""One Kubernetes object, decoded: `apiVersion`, `kind`, `metadata` and the rest."""
