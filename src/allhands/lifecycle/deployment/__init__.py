"""A Deployment: one ReplicaSet for every revision of its template, and a rollout from the old ones to the new one."""
