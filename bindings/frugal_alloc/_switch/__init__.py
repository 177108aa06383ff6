"""What the package's own functions do: ``enabling`` switches the allocator on and off by its ``settings``, and with it
what ``pytorch`` must know of it; memory may be kept ``in_place``.

Imports from ``_native``, ``_out_of_memory``, ``_report``, ``_top`` and ``_tracking``.
"""
