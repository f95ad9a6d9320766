"""Cluster state over HTTP: the port `Objects` against any Kubernetes API server, a real one or our embedded one."""
