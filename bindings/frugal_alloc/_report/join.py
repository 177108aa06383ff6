"""Several processes of one run: their documents as one, and how one of them gets those of the others."""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import time
import zlib
from typing import Any

from .. import _interruptions
from .._common.messages import Refused
from . import schema
from .headline import KIND_NAMES, ends_the_run

TIMEOUT_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_KEY = "frugal_alloc/report/"
# A torch.distributed store takes values up to 8 MiB.
_MOST_PACKED_BYTES = 4 << 20


def join(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """One document of several ranks' documents.

    It reads as that of the rank that is worst off, with the verdicts and GPUs of all: a verdict has the list of "ranks"
    that share it and the figures of the worst, and is material if one rank's is; a GPU has its "rank". The documents
    themselves are in "ranks", by rank.

    Args:
        documents: At least one; one alone is returned brought into form.

    Raises:
        BadDocument: one is not a report.
        Refused: two are of one rank, or they are of runs of different size, or of runs one after the other.
    """
    documents = sorted((schema.conform(document) for document in documents), key=_order)
    if len(documents) == 1:
        return documents[0]
    _check(documents)
    names = [rank_of(document, number) for number, document in enumerate(documents)]
    worst = worst_first(documents)[0]
    joined = copy.deepcopy(documents[worst])
    joined["run"] |= {"rank": None, "pid": None}
    if joined["oom"]:
        joined["oom"]["rank"] = names[worst]
    joined["verdicts"] = _verdicts(documents, names, joined["frames"])
    joined["gpus"] = [gpu | {"rank": name} for name, one in zip(names, documents, strict=True) for gpu in one["gpus"]]
    joined["suppressed"] = sum(document["suppressed"] for document in documents)
    joined["segments"] = []
    joined["notes"] = _notes(documents, names, worst)
    joined["ranks"] = documents
    return joined


def _order(document: dict[str, Any]) -> tuple[float, int]:
    rank = document["run"]["rank"]
    return (float("inf") if rank is None else rank), document["run"]["pid"] or 0


def worst_first(documents: list[dict[str, Any]]) -> list[int]:
    """The places of the documents in the list, in the order of how bad it went: errors first, then by the peak."""

    def badness(number: int) -> tuple[bool, bool, int]:
        document = documents[number]
        peak = max((gpu["peak_allocated_bytes"] for gpu in document["gpus"]), default=0)
        return ends_the_run(document["oom"]), bool(document["oom"]), peak

    return sorted(range(len(documents)), key=badness, reverse=True)


def rank_of(document: dict[str, Any], number: int) -> int:
    """Its place among the documents stands for a rank that is not known."""
    rank = document["run"]["rank"]
    return number if rank is None else rank


def _check(documents: list[dict[str, Any]]) -> None:
    ranks = [document["run"]["rank"] for document in documents if document["run"]["rank"] is not None]
    twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
    if twice is not None:
        raise Refused(f"two of the reports are of rank {twice}; name those of one run, or --compare two runs")
    if not ranks and _follow_each_other(documents):
        raise Refused("the reports are of runs one after the other; name those of one run, or --compare two runs")
    sizes = {document["run"]["world_size"] for document in documents} - {None}
    if len(sizes) > 1:
        raise Refused(f"the reports are of runs with {' and '.join(map(str, sorted(sizes)))} ranks; name one run's")
    if any(document["ranks"] for document in documents):
        raise Refused("one of the reports is of several ranks already; name it alone, or the others")


def _follow_each_other(documents: list[dict[str, Any]]) -> bool:
    """Whether one of them was over before another one started; processes of one run are there at a time."""
    starts, ends = (_times(documents, key) for key in ("started", "written"))
    return bool(starts and ends) and min(ends) < max(starts)


def _times(documents: list[dict[str, Any]], key: str) -> list[float]:
    """Those that are known; a file may say anything."""
    found = []
    for document in documents:
        with contextlib.suppress(TypeError, ValueError, OverflowError, OSError):
            found.append(datetime.datetime.fromisoformat(document["run"][key]).timestamp())
    return found


def _verdicts(documents: list[dict[str, Any]], names: list[int], frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of all ranks, each once; their stacks are in `frames`, to which is added what is not there."""
    numbers = {_frame_key(frame): number for number, frame in enumerate(frames)}
    found: dict[tuple, dict[str, Any]] = {}
    for name, document in zip(names, documents, strict=True):
        for verdict in document["verdicts"]:
            key = tuple(verdict[part] for part in ("kind", "file", "line", "function", "node"))
            known = found.get(key)
            ranks = [*known["ranks"], name] if known else [name]
            is_material = verdict["material"] or (known is not None and known["material"])
            if known is None or _badness(verdict) > _badness(known):
                stack = []
                for frame in (document["frames"][number] for number in verdict["stack"]):
                    if _frame_key(frame) not in numbers:
                        numbers[_frame_key(frame)] = len(frames)
                        frames.append(frame)
                    stack.append(numbers[_frame_key(frame)])
                found[key] = known = verdict | {"stack": stack}
            known["ranks"] = list(dict.fromkeys(ranks))
            known["material"] = is_material
    return sorted(found.values(), key=_place)


def _place(verdict: dict[str, Any]) -> tuple[float, ...]:
    kind = [*KIND_NAMES].index(verdict["kind"])
    return not verdict["material"], kind, *(-figure for figure in _badness(verdict))


def _frame_key(frame: dict[str, Any]) -> tuple[str, int, str]:
    return frame["file"], frame["line"], frame["function"]


def _badness(verdict: dict[str, Any]) -> tuple[float, int]:
    return verdict["bytes_per_epoch"], verdict["bytes"]


def _notes(documents: list[dict[str, Any]], names: list[int], worst: int) -> list[str]:
    notes = [f"{len(documents)} processes; where one is shown, it is rank {names[worst]}, which is worst off."]
    size = max((document["run"]["world_size"] or 0 for document in documents), default=0)
    if missing := sorted(set(range(size)) - set(names)):
        shown = ", ".join(map(str, missing[:20])) + (", …" if len(missing) > 20 else "")
        notes.append(f"Of {size} ranks, these are missing: {shown}.")
    return notes + list(dict.fromkeys(note for document in documents for note in document["notes"]))


def gather(document: dict[str, Any], timeout_seconds: float = TIMEOUT_SECONDS) -> dict[str, Any] | None:
    """Hands this rank's document to rank 0; at rank 0, joins those of all ranks that arrive in time.

    Goes through the store of torch.distributed's default process group, which needs no GPU and no collective: a rank
    that is stuck or gone is left out. Never raises, and takes `timeout_seconds` at most. Not for a forked child, which
    shares its parent's connection to the store.

    Returns:
        At rank 0, the joined document; None at others, and where there is no process group or only one rank.
    """
    try:
        import torch.distributed as distributed

        if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() < 2:
            return None
        store = distributed.distributed_c10d._get_default_store()
        if distributed.get_rank() != 0:
            with _patience(store, timeout_seconds):
                store.set(f"{_KEY}{distributed.get_rank()}", _packed(document))
            return None
        return join([document, *_arriving(store, distributed.get_world_size(), timeout_seconds)])
    except Exception as error:  # A report is not worth an error at the end of a run.
        _interruptions.pass_on(error)
        return None


@contextlib.contextmanager
def _patience(store: Any, seconds: float):
    """What the store does takes so long at most."""
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=seconds))
    try:
        yield
    finally:
        store.set_timeout(before)


def _arriving(store: Any, world_size: int, timeout_seconds: float) -> list[dict[str, Any]]:
    """Asks again and again, since a wait that runs out makes torch write warnings to the terminal."""
    end = time.monotonic() + timeout_seconds
    missing = set(range(1, world_size))
    documents = []
    with _patience(store, timeout_seconds):
        while missing:
            for rank in sorted(rank for rank in missing if store.check([f"{_KEY}{rank}"])):
                missing.remove(rank)
                with contextlib.suppress(ValueError, zlib.error):  # damaged: as if it had not come
                    documents.append(schema.conform(json.loads(zlib.decompress(store.get(f"{_KEY}{rank}")))))
            if not missing or time.monotonic() >= end:
                break
            time.sleep(_PAUSE_SECONDS)
    return documents


def _packed(document: dict[str, Any]) -> bytes:
    packed = zlib.compress(json.dumps(document).encode(), 1)
    if len(packed) <= _MOST_PACKED_BYTES:
        return packed
    # The address space is what can be large; the rest is bounded.
    return zlib.compress(json.dumps(document | {"segments": []}).encode(), 1)
