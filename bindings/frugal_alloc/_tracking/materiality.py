"""Which verdicts are one leak, told together, and which matter: those whose growth would fill the rest of the GPU
within as long as anybody trains."""

from __future__ import annotations

from typing import Any

Verdict = dict[str, Any]
# Nothing that is inferred from some epochs is certain.
MOST_CONFIDENCE = 0.99
MOST_EPOCHS = 10_000
MOST_STEPS = 1_000_000


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
    def unit(self) -> str:
        """By which it grows: where nothing tells epochs, as in TensorFlow's logs, each step counts as one."""
        return "step" if self[0]["bytes_per_epoch"] == self[0]["bytes_per_step"] else "epoch"


def grouped(verdicts: list[Verdict]) -> list[Cause]:
    """Verdicts that are parts of one leak: the lines of a graph that one variable holds, or where that is not known,
    those of one phase that one remedy mends. All of a cause are on one GPU."""
    causes: dict[tuple, Cause] = {}
    for number, verdict in enumerate(verdicts):
        key: tuple = (number,)
        if verdict["held_by"]:
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
    return max(0, min(sizes) - gpu["native_reserved_bytes"] - gpu["peak_allocated_bytes"])


def of(verdicts: list[Verdict], gpus: list[dict[str, Any]]) -> list[bool]:
    """Whether each verdict is material: at its rate the rest of the GPU is full within MOST_EPOCHS or MOST_STEPS.

    What cannot be judged is material. The verdicts of one cause are judged by what they grow by together; and of the
    smallest causes only as many are not material as would not fill the GPU together.

    Args:
        verdicts: Rows of the document; what they say of "material" is not looked at.
        gpus: Rows of the document. Of several with one number, as ranks have them, the fullest counts.
    """
    rooms = _rooms(gpus)
    taken: dict[int, tuple[float, float]] = {}
    small: set[int] = set()
    for cause in sorted(grouped(verdicts), key=lambda cause: cause.bytes_per_epoch):
        gpu = cause[0]["gpu"]
        per_epoch, per_step = taken.get(gpu, (0.0, 0.0))
        per_step += sum(verdict["bytes_per_step"] or 0 for verdict in cause)
        together = per_epoch + cause.bytes_per_epoch, per_step
        if all(verdict["bytes_per_epoch"] > 0 for verdict in cause) and _lasts(rooms.get(gpu), *together):
            taken[gpu] = together
            small.update(map(id, cause))
    return [id(verdict) not in small for verdict in verdicts]


def _rooms(gpus: list[dict[str, Any]]) -> dict[int, int | None]:
    rooms: dict[int, int | None] = {}
    for gpu in gpus:
        here, other = room(gpu), rooms.get(gpu["gpu"], room(gpu))
        rooms[gpu["gpu"]] = None if here is None or other is None else min(here, other)
    return rooms


def _lasts(room_bytes: int | None, per_epoch: float, per_step: float) -> bool:
    """Whether memory is left after MOST_STEPS and after MOST_EPOCHS; where each step counts as an epoch, only the steps
    tell."""
    if room_bytes is None:
        return False
    epochs = MOST_STEPS if per_epoch == per_step else MOST_EPOCHS
    return per_epoch * epochs < room_bytes and per_step * MOST_STEPS < room_bytes
