"""What an out-of-memory error says: found out on the failing thread, when every remedy has failed.

:func:`explain.explain` is what the library calls; ``disguises`` recognises errors that are memory running out under
another name.
"""
