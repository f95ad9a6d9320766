"""Rules that the author of a custom kind wrote in CEL (`x-kubernetes-validations`), evaluated as a real server does.

The language itself is Google's own implementation; here are Kubernetes' functions, the way a document looks to a rule,
and the walk over schema and object. Nothing here may run without bound on what a user sends.
"""
