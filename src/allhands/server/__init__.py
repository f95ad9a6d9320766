"""The HTTP face of the embedded cluster: requests in, calls of the port `Objects`, answers out.

It decides nothing about objects. What it owns is the protocol: paths, media types, options, limits, streams, TLS.
"""
