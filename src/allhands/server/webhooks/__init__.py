"""Admission for a real API server: what it asks before it stores an object of our kinds, answered by the rules that the
embedded cluster asks in process. Nothing here decides what is right: `api.volcano.admission` does."""
