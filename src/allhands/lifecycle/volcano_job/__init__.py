"""The life of a Volcano Job: its group, its pods, what happens to them, and its end. Pure."""
