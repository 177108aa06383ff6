"""Recorded allocations, and playing them through allocators to measure these.

``history_files.read`` reads a recording; ``replays.Replayer`` plays it. Imports from ``_common`` and ``_simulation``.
"""
