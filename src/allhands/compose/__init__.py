"""The only room that knows everyone: it puts the parts together and hands out something that runs.

`embedded` is a whole cluster in this process, with its HTTP face on loopback; `simulated` is the same on virtual time;
`real` are the parts as processes beside a real cluster. Ports are filled here and nowhere else. Nothing is imported
here: a scheduler beside a real cluster has no use for a store.
"""
