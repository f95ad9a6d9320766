"""Server-side apply as pure functions: who owns which fields, and what becomes of an object when somebody applies.

It knows no store, no clock and no request. The algorithm is that of the real server's structured merge; the words of
its refusals are the real server's too.
"""
