"""How identifiers are written, wherever their chance comes from."""

from typing import Final

NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no digits that look like them: generated names must not spell words."""
SUFFIX_LENGTH: Final = 5


def uid_text(bits: int) -> str:
    """128 bits of chance as a uid."""
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
