"""Node agents: what makes bound pods run. Simulated kubelets and local processes, behind one interface.

An agent acts only on pods that are bound to its nodes and learns of them only through the port.
"""
