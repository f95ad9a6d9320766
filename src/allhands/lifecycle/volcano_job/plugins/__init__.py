"""Job plugins, one file each; catalog.py is the list."""
