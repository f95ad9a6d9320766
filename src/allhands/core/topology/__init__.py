"""The network's topology as the core uses it: which domains could hold a gang, the closest first, and why none does."""
