"""The shape of every kind: which fields exist, of which type, and how a document is brought into normal form.

Built-in kinds are described by a dependency that carries the published OpenAPI, and by `gotypes.txt`, which adds what
OpenAPI leaves out (see `make gotypes`). Custom kinds are described by their own structural schema.
"""
