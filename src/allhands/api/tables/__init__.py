"""What `kubectl get` shows: the server's Table (meta.k8s.io/v1) of each kind, a pure function of objects and now."""
