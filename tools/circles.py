"""Circles in a graph: those who reach themselves."""

from __future__ import annotations

import collections

Graph = dict[str, set[str]]


def circles_of(graph: Graph) -> list[str]:
    """One circle through each group of those that reach each other; "a -> b -> a"."""
    found, seen = [], set()
    for start in sorted(graph):
        path = _way(graph, start, start) if start not in seen else []
        if path:
            seen |= set(path)
            found.append(" -> ".join(path))
    return found


def _way(graph: Graph, start: str, end: str) -> list[str]:
    """The shortest way of one step or more; none: an empty list."""
    ways = collections.deque([[start]])
    met = set()
    while ways:
        way = ways.popleft()
        for other in sorted(graph.get(way[-1], ())):
            if other == end:
                return [*way, other]
            if other not in met:
                met.add(other)
                ways.append([*way, other])
    return []
