"""Shells around lifecycle machines, one file each: what to watch, whose key an event is, what the machine is shown."""
