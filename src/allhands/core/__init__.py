"""The scheduling core: `cycle(snapshot, policy, memo, now, rng) -> (plan, memo)`, pure, for every kind of cluster.

It never waits, never reads a clock, never touches the network, and never raises because of one bad object.
"""
