"""Recorded allocations, and playing them through allocators to measure these.

``history_files.read`` makes a history of a recording; ``replays.Replayer`` plays it.
"""
