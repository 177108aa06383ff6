"""What would make a program smaller, and what that would save of the most that it asks for at a time.

A change is said only where its saving follows from what the program held from moment to moment:
``tests/fit/test_savings.py`` carries each out and holds it to a tenth.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..._common.messages import format_bytes, format_code_line
from .. import marks
from ..timeline import NEVER
from . import process_record, verdict
from .process_record import Place
from .recording import Allocation, Recording
from .verdict import BACKWARD, ELSEWHERE, EVALUATION, FORWARD, OPTIMIZER, Change, CodeLine, HeldByLine

# Of the peak; what brings less is not worth its line.
LEAST_PART = 0.05
MOST = 5
# Into so many parts a loss is computed; more bring little.
_CHUNKS = 8
# Results of the model's and copies of them that a loss is made of, in each forward pass; more are layers' results.
_MOST_SCORES = 3
# Of 8-bit states each 256 numbers have a factor of 4 bytes.
_EIGHT_BITS = 1 + 4 / 256

# What a library calls a change, which its users make by a setting.
_NAMES = {
    process_record.TRAINER: {
        "checkpoint": "TrainingArguments(gradient_checkpointing=True)",
        "half": "TrainingArguments(per_device_train_batch_size=..., gradient_accumulation_steps=...)",
        "fused": 'TrainingArguments(optim="adamw_torch_fused")',
        "8 bits": 'TrainingArguments(optim="adamw_bnb_8bit")',
    },
    process_record.TRANSFORMERS: {"checkpoint": "model.gradient_checkpointing_enable()"},
    process_record.DIFFUSERS: {"checkpoint": "model.enable_gradient_checkpointing()"},
}

# What a change does without: from when, until when, and how many bytes.
_Spared = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Traits:
    """Of the program, as far as advice depends on it."""

    is_half: bool = False  # it computes in half precision
    can_fuse: bool = False  # its optimizer knows fused=True, and was made without


def of_recording(
    recording: Recording,
    places: Mapping[int, Place],
    lines: Mapping[int, CodeLine | None],
    *,
    phase: str,
    traits: Traits,
) -> tuple[Change, ...]:
    """The most useful first.

    Args:
        lines: The program's own, by site.
        phase: That of the peak.
    """
    most = _most_live(recording)
    found = [
        dataclasses.replace(change, bytes=most - left)
        for change, left in _changes(recording, places, lines, phase, traits)
    ]
    worthwhile = [change for change in found if change.bytes >= max(most * LEAST_PART, 1)]
    return tuple(sorted(worthwhile, key=lambda change: -change.bytes)[:MOST])


def _changes(
    recording: Recording,
    places: Mapping[int, Place],
    lines: Mapping[int, CodeLine | None],
    phase: str,
    traits: Traits,
) -> Iterator[tuple[Change, int]]:
    """Each with the most that is live once it is made."""
    batch = [(block.born, block.died, block.bytes // 2) for block in _of_batch(recording, phase, traits.is_half)]
    half = _most_live(recording, batch)
    if phase == EVALUATION:
        yield Change("a smaller batch for evaluation: half of it", 0, is_estimate=True), half
        return
    own = _own_names(places)
    text = f"half the batch, with gradients accumulated over twice as many{_named(own.get('half'))}"
    yield Change(text, 0, is_estimate=True), half
    library = own.get("checkpoint", "torch.utils.checkpoint")
    yield from _checkpoints(recording, places, lines, traits.is_half, library)
    yield (
        Change(
            f"compute the model's last layer and the loss in {_CHUNKS} parts, each in a checkpoint "
            "(torch.utils.checkpoint)",
            0,
            is_estimate=True,
        ),
        _most_live(recording, _of_loss(recording, places)),
    )
    yield (
        Change(
            "call optimizer.zero_grad() before the forward pass, not after it: the gradients of the step before are "
            "still there",
            0,
        ),
        _most_live(recording, _late_gradients(recording)),
    )
    passing = list(_of_optimizer_steps(recording))
    if traits.can_fuse:
        how = own.get("fused", "fused=True")
        text = f"make the optimizer with {how}: a step makes temporaries as large as the parameters"
        yield Change(text, 0), _most_live(recording, passing)
    text = f"8-bit optimizer states, as bitsandbytes.optim and torchao.optim have them{_named(own.get('8 bits'))}"
    yield Change(text, 0, is_estimate=True), _most_live(recording, [*_of_states(recording), *passing])
    if not _accumulates(recording):
        text = "step each parameter as its gradient is there (register_post_accumulate_grad_hook), and let it go"
        largest = max((size for _, _, size in passing), default=0)
        yield Change(text, 0), _most_live(recording, [*_gradients(recording), *passing]) + largest


def _own_names(places: Mapping[int, Place]) -> Mapping[str, str]:
    """What the program's library calls changes."""
    used = {trait for place in places.values() for trait in place.traits}
    return next((names for library, names in _NAMES.items() if library in used), {})


def _named(setting: str | None) -> str:
    return f": {setting}" if setting else ""


def _most_live(
    recording: Recording, spared: Iterable[_Spared] = (), saved: Callable[[int], int] = lambda held: held
) -> int:
    """Bytes of all allocations at a time, less what is saved of those that are spared then."""
    return max((live - saved(held) for _, live, held in _held(recording, spared)), default=0)


def _held(recording: Recording, spared: Iterable[_Spared]) -> Iterator[tuple[int, int, int]]:
    """Each moment of a change, and the bytes of all allocations that are live from then on, and of the spared ones."""
    changes: collections.Counter[int] = collections.Counter()
    of_spared: collections.Counter[int] = collections.Counter()
    for counter, stretches in ((changes, map(_whole, recording.allocations)), (of_spared, spared)):
        for begins, ends, size in stretches:
            counter[begins] += size
            counter[ends] -= size
    live = held = 0
    for at in sorted({*changes, *of_spared}):
        live, held = live + changes[at], held + of_spared[at]
        yield at, live, held


def _whole(block: Allocation) -> _Spared:
    return block.born, block.died, block.bytes


def held_by_lines(allocations: Sequence[Allocation], lines: Mapping[int, CodeLine | None]) -> list[HeldByLine]:
    """The most first."""
    bytes_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    blocks_of: collections.Counter[tuple[CodeLine | None, str]] = collections.Counter()
    for block in allocations:
        key = lines.get(block.site), block.component
        bytes_of[key] += block.bytes
        blocks_of[key] += 1
    return [HeldByLine(*key, held, blocks_of[key]) for key, held in bytes_of.most_common()]


def _late_gradients(recording: Recording) -> Iterator[_Spared]:
    """Those of the step before, until the forward pass lets them go."""
    begins: dict[int, int] = {}
    for stretch in recording.stretches:
        begins.setdefault(stretch.step, stretch.begins)
    for block in recording.allocations:
        if block.component != verdict.GRADIENTS or block.died == NEVER:
            continue
        made, freed = recording.stretches[block.phase], recording.stretch_at(block.died)
        if freed.step > made.step and freed.phase in (FORWARD, ELSEWHERE):
            yield begins[freed.step], block.died, block.bytes


def _gradients(recording: Recording) -> Iterator[_Spared]:
    """From the moment on that each is there."""
    for block in recording.allocations:
        if block.component == verdict.GRADIENTS:
            yield block.born + 1, block.died, block.bytes


def _accumulates(recording: Recording) -> bool:
    """Gradients of several backward passes go into a step."""
    passes = collections.Counter(stretch.step for stretch in recording.stretches if stretch.phase == BACKWARD)
    return max(passes.values(), default=0) > 1


def _of_optimizer_steps(recording: Recording) -> Iterator[_Spared]:
    for block in recording.allocations:
        if block.component == verdict.TEMPORARIES and recording.stretches[block.phase].phase == OPTIMIZER:
            yield _whole(block)


def _of_states(recording: Recording) -> Iterator[_Spared]:
    for block in recording.allocations:
        if block.component == verdict.OPTIMIZER_STATE:
            for label, size in marks.NUMBERS.items():
                if label in block.labels:
                    yield block.born, block.died, max(block.bytes - int(block.bytes / size * _EIGHT_BITS), 0)


def _of_loss(recording: Recording, places: Mapping[int, Place]) -> Iterator[_Spared]:
    """What is as large as the scores that a loss is computed from, which are larger than what layers keep."""

    def is_of_loss(block: Allocation) -> bool:
        place = places.get(block.site)
        forward = places.get(place.forward) if place is not None else None
        return any(process_record.LOSS in at.traits for at in (place, forward) if at is not None)

    passes = [block for block in recording.allocations if recording.stretches[block.phase].phase in (FORWARD, BACKWARD)]
    largest = max((block.bytes for block in passes if is_of_loss(block)), default=0)
    alike = [block for block in passes if any(0.98 * size <= block.bytes <= size for size in (largest, largest // 2))]
    others = collections.Counter(
        block.phase for block in alike if recording.stretches[block.phase].phase == FORWARD and not is_of_loss(block)
    )
    if max(others.values(), default=0) > _MOST_SCORES:
        return
    for block in passes:
        is_beside = block.component == verdict.TEMPORARIES and block.bytes > largest // 4
        if block in alike or (is_beside and any(score.born < block.born < score.died for score in alike)):
            yield block.born, block.died, block.bytes - block.bytes // _CHUNKS


def _checkpoints(
    recording: Recording,
    places: Mapping[int, Place],
    lines: Mapping[int, CodeLine | None],
    is_half: bool,
    library: str,
) -> Iterator[tuple[Change, int]]:
    """By what the library calls it."""
    copies = _copies_of_parameters(recording) if is_half else set()
    kept = [block for block in _kept_by_layers(recording, places) if block.born not in copies]
    spared = [_whole(block) for block in kept]
    size, at = max(((held, at) for at, _, held in _held(recording, spared)), default=(0, 0))
    at_most = [block for block in kept if block.born <= at < block.died]
    line = next((line for line in held_by_lines(at_most, lines) if line.where is not None), None)
    if line is None or line.where is None:
        return
    where = format_code_line(line.where.file, line.where.line)
    text = (
        f"checkpoint the layers whose results are kept for backward ({library}): "
        f"{format_bytes(line.bytes)} are of {where}"
    )
    stays = _stays(at_most, size)
    if stays is None:
        return
    yield Change(text, 0, is_estimate=True), _most_live(recording, spared, lambda held: held - stays(held))


def _of_batch(recording: Recording, phase: str, is_half: bool) -> list[Allocation]:
    """What grows with the batch; where an evaluation needs most, with its batch.

    Of what is freed in the phase that made it, that which is as large as a parameter is likely its gradient, or its
    copy in half precision.
    """
    kinds_of_weights = (verdict.PARAMETERS, verdict.COMMUNICATION)
    weights = [block.bytes for block in recording.allocations if block.component in kinds_of_weights]
    of_weights = set(weights) | {size // 2 for size in weights}
    copies = _copies_of_parameters(recording) if is_half else set()
    phases = (EVALUATION,) if phase == EVALUATION else (FORWARD, BACKWARD, EVALUATION)

    def grows(block: Allocation) -> bool:
        if block.component in (verdict.INPUTS, verdict.KEYS_AND_VALUES):
            return True
        if recording.stretches[block.phase].phase not in phases:
            return False
        if block.component == verdict.ACTIVATIONS:
            return block.born not in copies
        is_passing = block.component in (verdict.TEMPORARIES, verdict.WORKSPACES) and block.died != NEVER
        return is_passing and block.bytes not in of_weights

    return [block for block in recording.allocations if grows(block)]


def _copies_of_parameters(recording: Recording) -> set[int]:
    """When the copies in half precision were made that autocast keeps until it ends: one of each parameter."""
    parameters = [block for block in recording.allocations if block.component == verdict.PARAMETERS]
    sizes = collections.Counter(block.bytes // 2 for block in parameters)
    copied: collections.Counter[tuple[int, int]] = collections.Counter()
    copies = set()
    for block in recording.allocations:
        if block.component == verdict.ACTIVATIONS and copied[block.phase, block.bytes] < sizes[block.bytes]:
            copied[block.phase, block.bytes] += 1
            copies.add(block.born)
    return copies


def _kept_by_layers(recording: Recording, places_by_site: Mapping[int, Place]) -> list[Allocation]:
    """What layers keep for the backward pass and checkpoints would let go: not what is in a checkpoint already, nor
    the loss's, nor the model's result, which the loss needs."""
    by_stretch: dict[int, list[Allocation]] = {}
    for block in recording.allocations:
        place = places_by_site.get(block.site)
        is_forward = recording.stretches[block.phase].phase == FORWARD
        if block.component != verdict.ACTIVATIONS or place is None or not is_forward:
            continue
        traits = set(place.traits)
        if process_record.MODULE_CALL in traits and not traits & {process_record.CHECKPOINTED, process_record.LOSS}:
            by_stretch.setdefault(block.phase, []).append(block)
    return [block for kept in by_stretch.values() for block in kept[:-1]]


def _stays(at_most: Sequence[Allocation], size: int) -> Callable[[int], int] | None:
    """How much of so many bytes of what layers keep would stay with checkpoints: one block of each layer, and what is
    left of the results of the one that the backward pass has reached, which are computed again. None: no layer repeats
    another.

    Args:
        at_most, size: What layers keep when that is most.
    """
    # A loop over layers asks for each layer's memory from the same sites, most of them once for each layer.
    by_site: dict[int, list[int]] = {}
    for block in at_most:
        by_site.setdefault(block.site, []).append(block.bytes)
    of_loops: collections.Counter[int] = collections.Counter()
    for sizes in by_site.values():
        of_loops[len(sizes)] += sum(sizes)
    layers = of_loops.most_common(1)[0][0]
    if layers < 2:
        return None
    of_layer, of_block = size // layers, size // len(at_most)

    def stays(held: int) -> int:
        if held >= size:
            return layers * of_block
        before = max(-(-held // of_layer) - 1, 0)
        return min(before * of_block + held - before * of_layer, held)

    return stays
