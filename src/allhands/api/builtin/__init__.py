"""Rules of the built-in kinds, one module per family: each exports `RULES`, keyed by kind.

Pure functions over decoded objects in normal form. They never look at another object, a clock or a random source.
"""
