"""Which verdicts are one leak, told together, and which matter: those whose growth would fill the rest of the GPU
within as long as anybody trains, or as a server runs."""

from __future__ import annotations

from typing import Any

Verdict = dict[str, Any]
# Nothing that is inferred from some epochs is certain.
MOST_CONFIDENCE = 0.99
MOST_EPOCHS = 10_000
MOST_STEPS = 1_000_000
# Without a restart, of a program whose epochs are windows of calls and say nothing about how long it runs.
MOST_DAYS = 30
SECONDS_PER_DAY = 86_400
# What a holder has where that is no tensor, by pattern: the word for one, and for many if that is another.
_HELD = {
    "cuda_graph_per_shape": ("CUDA graph or result", "CUDA graphs or results"),
    "private_pool": ("MemPool",),
}


class Cause(list[Verdict]):
    """The verdicts of one leak, all on one GPU, the largest first."""

    @property
    def kind(self) -> str:
        return self[0]["kind"]

    @property
    def bytes_per_epoch(self) -> float:
        return sum(verdict["bytes_per_epoch"] for verdict in self)

    @property
    def bytes(self) -> int:
        return sum(verdict["bytes"] for verdict in self)

    @property
    def is_let_go(self) -> bool:
        """Whether most of it is not in use any more."""
        now = self._sum_of("bytes_now")
        return now is not None and now < self.bytes / 2

    @property
    def held(self) -> tuple[int, int]:
        """Bytes and blocks in use now; where these are not known, or most was let go, at the end of the latest
        epoch."""
        now, blocks = self._sum_of("bytes_now"), self._sum_of("blocks_now")
        if now is None or blocks is None or self.is_let_go:
            return self.bytes, self._sum_of("blocks") or 0
        return now, blocks

    @property
    def holders(self) -> list[Verdict]:
        """Who holds it, of all its lines together: rows of "held_by"."""
        holders: dict[tuple, Verdict] = {}
        for row in (row for verdict in self for row in verdict["held_by"]):
            before = holders.setdefault((row["what"], row["file"], row["line"]), row | {"bytes": 0})
            # The same tensors hold the graphs in which several lines are.
            tensors = max(before["tensors"], row["tensors"])
            before |= {"bytes": before["bytes"] + row["bytes"], "tensors": tensors}
        if len(self) > 1 and all(row.get("share") for row in holders.values()):
            held = [verdict["held_by"][0] for verdict in self if verdict["held_by"]]
            whole = sum(row["bytes"] / row["share"] for row in held)
            for row in holders.values():
                row["share"] = row["bytes"] / whole
        return list(holders.values())

    @property
    def held_things(self) -> tuple[str, ...]:
        """The word for one of what a holder has of it, and for many if that is another."""
        return _HELD.get(self[0]["pattern"], ("tensor",))

    @property
    def unit(self) -> str:
        """By which it grows: where nothing tells epochs, as in TensorFlow's logs, each step counts as one."""
        return "step" if self[0]["bytes_per_epoch"] == self[0]["bytes_per_step"] else "epoch"

    def _sum_of(self, key: str) -> int | None:
        figures = [verdict.get(key) for verdict in self]
        return None if None in figures else sum(figures)


def grouped(verdicts: list[Verdict]) -> list[Cause]:
    """Verdicts that are parts of one leak: the lines of a graph that one variable holds, or where that is not known,
    those of one phase that one remedy mends; and what CUDA graphs keep. All of a cause are on one GPU."""
    causes: dict[tuple, Cause] = {}
    for number, verdict in enumerate(verdicts):
        key: tuple = (number,)
        if verdict["pattern"] == "cuda_graph_per_shape":
            # Graphs, their inputs and their results may be kept in several places.
            key = (verdict["pattern"],)
        elif verdict["held_by"]:
            holder = verdict["held_by"][0]
            key = (verdict["kind"] == "suspect", verdict["pattern"], holder["what"], holder["line"])
        elif verdict["pattern"]:
            key = (verdict["kind"], verdict["pattern"], verdict["phase"], verdict["advice"])
        causes.setdefault((verdict["gpu"], key), Cause()).append(verdict)
    return list(causes.values())


def material_and_small(verdicts: list[Verdict]) -> tuple[list[Cause], list[Cause]]:
    """The causes that matter, and those that are only counted and told last."""
    material = [verdict for verdict in verdicts if verdict["material"]]
    small = [verdict for verdict in verdicts if not verdict["material"]]
    return grouped(material), grouped(small)


def room(gpu: dict[str, Any]) -> int | None:
    """Bytes that may still be taken on the GPU of a document's row, when most is in use; None: its size is unknown."""
    sizes = [gpu["limit_bytes"]] if gpu["limit_bytes"] else []
    if gpu["total_bytes"]:
        sizes.append(gpu["total_bytes"] - gpu["outside_bytes"])
    if not sizes:
        return None
    kept = sum(pool["kept_bytes"] for pool in gpu.get("private_pools") or [] if not pool["released"])
    return max(0, min(sizes) - gpu["native_reserved_bytes"] - gpu["peak_allocated_bytes"] - kept)


def rooms(gpus: list[dict[str, Any]]) -> dict[int, int | None]:
    """By number of the GPU; of several rows of one number, the fullest one's."""
    found: dict[int, int | None] = {}
    for gpu in gpus:
        here, other = room(gpu), found.get(gpu["gpu"], room(gpu))
        found[gpu["gpu"]] = None if here is None or other is None else min(here, other)
    return found


def of(verdicts: list[Verdict], gpus: list[dict[str, Any]], seconds_per_epoch: float | None = None) -> list[bool]:
    """Whether each verdict is material: at its rate the rest of the GPU is full within MOST_EPOCHS or MOST_STEPS; where
    calls of modules make epochs, within MOST_DAYS or so many calls.

    What cannot be judged is material. The verdicts of one cause are judged by what they grow by together; and of the
    smallest causes only as many are not material as would not fill the GPU together.

    Args:
        verdicts: Rows of the document; what they say of "material" is not looked at.
        gpus: Rows of the document. Of several with one number, as ranks have them, the fullest counts.
        seconds_per_epoch: Of those that calls of modules end, as they have come so far; None: the program has others,
            or that is not known.
    """
    most_epochs = MOST_DAYS * SECONDS_PER_DAY / seconds_per_epoch if seconds_per_epoch else MOST_EPOCHS
    left = rooms(gpus)
    taken: dict[int, tuple[float, float]] = {}
    small: set[int] = set()
    for cause in sorted(grouped(verdicts), key=lambda cause: cause.bytes_per_epoch):
        gpu = cause[0]["gpu"]
        per_epoch, per_step = taken.get(gpu, (0.0, 0.0))
        per_step += sum(verdict["bytes_per_step"] or 0 for verdict in cause)
        together = per_epoch + cause.bytes_per_epoch, per_step
        if all(verdict["bytes_per_epoch"] > 0 for verdict in cause) and _lasts(left.get(gpu), *together, most_epochs):
            taken[gpu] = together
            small.update(map(id, cause))
    return [id(verdict) not in small for verdict in verdicts]


def _lasts(room_bytes: int | None, per_epoch: float, per_step: float, most_epochs: float) -> bool:
    """Whether memory is left after MOST_STEPS and after so many epochs; where each step counts as an epoch, only the
    steps tell."""
    if room_bytes is None:
        return False
    epochs = MOST_STEPS if per_epoch == per_step else most_epochs
    return per_epoch * epochs < room_bytes and per_step * MOST_STEPS < room_bytes
