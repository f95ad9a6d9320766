"""The three ways a client may change part of an object: JSON patch, merge patch and strategic merge patch.

Every function here is pure: it returns a new document that shares nothing with its inputs, which it never changes.
What cannot be applied is refused as a kube-apiserver refuses it; nothing is ever applied in part.
"""

from allhands.api.patch.errors import PatchError
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.patch.strategic import FieldMerge, MergeSchema, strategic_merge_patch

__all__ = ["FieldMerge", "MergeSchema", "PatchError", "json_patch", "merge_patch", "strategic_merge_patch"]
