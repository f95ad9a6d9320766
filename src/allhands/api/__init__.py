"""The kinds we serve: their names and schemas, how a document is defaulted, validated, patched, selected and printed.

Functions of their inputs only. What a cluster holds at the moment (is there such a namespace?) is the store's business.
"""
