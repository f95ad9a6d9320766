"""The scheduler as a running thing: it watches, asks the core, and carries out what the core decided."""
