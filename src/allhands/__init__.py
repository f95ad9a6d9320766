"""allhands: a batch system for Kubernetes. All hands or none."""

__version__ = "0.1.0"
