"""Volcano's kinds, field by field, with their documentation; our definitions of them are generated from these types."""
