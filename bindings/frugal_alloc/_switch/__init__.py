"""What the package's own functions do: ``enabling`` switches the allocator on and off by its ``settings``, and with it
what ``pytorch`` must know of it; memory may be kept ``in_place``, and goes back before ``communicators`` need some.
"""
