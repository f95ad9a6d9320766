"""Where a pod may go at all: the filters of kube-scheduler, each a mask over all nodes. Nothing here has a taste."""
