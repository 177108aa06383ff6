"""The ways in which programs leak: a table of rules. The first that fits a leak names it and says what to do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from .. import _native
from .._common.messages import format_bytes
from .._heap import kept_pools
from .._heap.names import Name
from .._native.sites import Frame
from .._program import code_lines
from . import source_flow
from .accusations import OTHERS, Accusation
from .bounds import Bound
from .holders import Evidence, Holder


class Leak(NamedTuple):
    """What is known of one leak."""

    accusation: Accusation
    frames: tuple[Frame, ...]  # its whole stack, innermost first; of the forward where a backward allocated
    evidence: Evidence
    was_trained: bool  # it is of models that were trained, or their gradients; not an optimizer's state
    room: int | None  # bytes that may still be taken on its GPU, as materiality has it

    @property
    def kind(self) -> str:
        """Of the verdict."""
        return self.accusation.kind

    @property
    def code(self) -> str:
        """The user's line; "" where it is not known."""
        frame = self.accusation.frame
        return code_lines.source(frame.file, frame.line) if frame else ""

    @property
    def where(self) -> str:
        """That line, as "train.py:12"; the phase where no line is known; "": nor a phase."""
        frame = self.accusation.frame
        return code_lines.written(frame.file, frame.line) if frame else self.accusation.site.phase

    @property
    def is_held(self) -> bool:
        """Whether it is known who holds most of it."""
        return bool(self.evidence.holders) and self.evidence.is_explained

    @property
    def holder(self) -> Holder:
        """Who holds most of it; NOBODY where that is not known."""
        return self.evidence.holders[0] if self.is_held else NOBODY

    @property
    def to_come(self) -> int | None:
        """Bytes that the holder takes besides until it is full; None: it has no bound."""
        bound = self.holder.bound
        if bound is None or self.kind == "growing":
            return None
        # Entries of the first epochs are no part of the leak, and an entry may have several of its tensors.
        of_leak = max(1, min(bound.entries, self.holder.tensors))
        return bound.entries_to_come * self.holder.bytes // of_leak

    @property
    def has_graph(self) -> bool:
        """Whether graphs hold it."""
        return self.evidence.is_in_graphs or self.holder.has_graph


class Pattern(NamedTuple):
    """A row of the table. In its advice {holder} is who holds the leak, in words, and {name} as the program may write
    it; {bound} is what it may hold at most, {counted} what it has of that, and {to_come} what the rest would take;
    {hook} is the first hook that uses a holder, {declared} the call that says that the leak is meant, and {share}
    the part of it that is known to be held."""

    name: str
    fits: Callable[[Leak], object]
    advice: str
    is_benign: bool = False  # grows, but no report should accuse it: the advice is a note


NOBODY = Holder(Name("", "something", "", "", None, None), 0, 0, 0.0, False, False)

_EVALUATION = re.compile(
    r"(^|_)(eval|evaluate|evaluation|val|valid|validate|validation|test|predict|infer|inference)(_|$)"
)
_PARAMETERS = re.compile(r"\bParameter(List|Dict)\b")
_CONCATENATES = re.compile(r"\b(cat|concat|concatenate|stack|hstack|vstack)\(")


def recognise(leak: Leak) -> Pattern:
    """The pattern that the leak follows, with its advice for this one; "unknown" if it is none of those known."""
    rule = next(rule for rule in RULES if rule.fits(leak))
    name, hooks = leak.holder.name, leak.evidence.hooks
    bound = leak.holder.bound or Bound("", 0, 0, 0)
    advice = rule.advice.format(
        holder=name.what + (f" (line {name.line})" if name.line else ""),
        name=name.name,
        counted=f"{bound.counted:,}",
        bound=f"{bound.most:,} ({bound.name})",
        to_come=format_bytes(leak.to_come or 0),
        hook=hooks[0] if hooks else "",
        declared=f'frugal_alloc.expect_growth("{leak.where}")' if leak.where else "frugal_alloc.expect_growth",
        share=f"{leak.evidence.share:.0%}",
    )
    return rule._replace(advice=advice)


def _way(leak: Leak) -> tuple[str, str]:
    """The holder in words, and the way from there to the tensors."""
    return leak.holder.name.what, leak.holder.name.through


def _is_filling(leak: Leak) -> bool:
    """Up to a bound, on a GPU of known size. What is kept with its graph could be kept without, whatever the bound."""
    return leak.to_come is not None and leak.room is not None and not leak.has_graph


def _fits_when_full(leak: Leak) -> bool:
    return _is_filling(leak) and leak.to_come <= leak.room


def _is_metric(leak: Leak) -> bool:
    """States of a metric's, not results of it that the program keeps."""
    name = leak.holder.name
    # The owner's class is not the program's own: it is reached through something of the program's.
    is_others = name.holder != name.collection and (name.kind == "variable" or name.is_librarys or name.through != "")
    is_torchmetrics = any("torchmetrics" in frame.file for frame in leak.frames)
    return name.holder.lower().endswith("metric") or (is_torchmetrics and (is_others or not leak.is_held))


def _is_made_anew(leak: Leak) -> bool:
    """Results that become larger since what they are made from does: longer sequences, or another tensor that grows."""
    if leak.kind != "growing" or not leak.is_held:
        return False
    # Who has it besides keeps it, too.
    for name in [*(holder.name for holder in leak.evidence.holders), *leak.evidence.passed_over]:
        is_result = name.kind == "variable" and name.collection == "tensor" and "[" not in name.name
        if not is_result or not name.file or source_flow.is_carried(name.file, name.function, name.name):
            return False
    return True


def _is_notebooks_output(leak: Leak) -> bool:
    """What IPython keeps. A program that is no notebook has a file."""
    name = leak.holder.name
    return name.name.partition("[")[0] == "Out" and name.function == "<module>" and name.file is None


def _is_ensemble(leak: Leak) -> bool:
    """Models that were trained and are used since, as by boosting: told from models that are merely kept."""
    name = leak.holder.name
    return (
        leak.was_trained
        and name.file is not None
        and source_flow.is_used_in_passing(name.file, name.name.partition("[")[0])
    )


def _is_list_of_parameters(leak: Leak) -> bool:
    """Of one module, to which they are added; not of a model each."""
    return leak.is_held and not leak.was_trained and _PARAMETERS.search(" ".join(_way(leak))) is not None


def _is_copy_of_weights(leak: Leak) -> bool:
    copied = any(frame.function in ("deepcopy", "_deepcopy_dict", "state_dict") for frame in leak.frames)
    return copied or "state_dict" in leak.code or "deepcopy" in leak.code


def _is_concatenation(leak: Leak) -> bool:
    # Where there are more tensors with each epoch, each was concatenated once, and something else gathers them.
    if leak.kind != "growing" or not (leak.evidence.is_concatenated or _CONCATENATES.search(leak.code)):
        return False
    # Each part of it that a graph keeps is another tensor.
    return not leak.evidence.is_in_graphs


def _is_evaluation(leak: Leak) -> bool:
    names = [leak.accusation.site.phase, *(frame.function for frame in leak.frames)]
    return leak.has_graph and any(_EVALUATION.search(name.lower()) for name in names)


def _is_graph(leak: Leak) -> bool:
    return leak.is_held and leak.has_graph


def _is_one_tensor(leak: Leak) -> bool:
    name = leak.holder.name
    return name.collection == "tensor" and name.kind in ("variable", "attribute", "buffer")


def _is_more(leak: Leak, whose: str) -> bool:
    """Whether there are more of them, rather than larger ones."""
    return leak.accusation.whose == whose and leak.kind != "growing" and not _fits_when_full(leak)


def _was_shared(leak: Leak) -> bool:
    library, blocks = _native.loaded(), leak.accusation.extents or []
    shared = sum(size for address, size, _ in blocks if library is not None and address in library.shared)
    return 2 * shared > sum(size for _, size, _ in blocks)


def _is_of_models(leak: Leak) -> bool:
    is_parameter = any(text.startswith(("parameter ", "Parameter ")) for text in _way(leak))
    # By an optimizer for the user's line, which may itself be called by one, as a closure is.
    made_by = itertools.takewhile(lambda frame: frame != leak.accusation.frame, leak.frames)
    return is_parameter or any("/torch/optim/" in frame.file for frame in made_by)


RULES = (
    Pattern(
        "outside",
        lambda leak: leak.kind == "outside",
        "neither PyTorch nor frugal_alloc holds it: look with nvidia-smi for another process on this GPU, else for a "
        "library with an allocator of its own (NCCL, CuPy, DALI, TensorRT) that is used anew each time",
    ),
    Pattern(
        "failed_capture",
        lambda leak: leak.accusation.whose == kept_pools.LOST,
        "captures of CUDA graphs fail, and PyTorch keeps for ever what each has taken: mend what their errors name, or "
        "capture no more once one has failed",
    ),
    Pattern(
        "reference_cycle",
        lambda leak: leak.kind == "cycle",
        "a reference cycle holds it until Python's collector runs: break the cycle (a weakref for the way back, no "
        "closure or exception that refers to its own frame), or call gc.collect() once an epoch",
    ),
    Pattern(
        "made_anew",
        _is_made_anew,
        "{holder} is made anew each time, and larger since what it is made from is: no leak by itself",
        is_benign=True,
    ),
    Pattern(
        "stored_exception",
        lambda leak: leak.holder.name.kind == "exception",
        "{holder}: a stored exception keeps its frames with all their tensors; store str(error), or call "
        "traceback.clear_frames(error.__traceback__)",
    ),
    Pattern(
        "hooks_added",
        lambda leak: leak.holder.name.kind == "hooks" or leak.holder.name.name.endswith("_hooks"),
        "{holder}: each call adds one more hook, which keeps what its function uses: register it once, before the "
        "loop, or remove it after use with handle.remove()",
    ),
    Pattern(
        "context_attribute",
        lambda leak: leak.holder.name.kind == "context",
        "{holder}: an attribute of ctx that holds an output keeps the graph that made it, and that graph keeps "
        "ctx: use ctx.save_for_backward(), which knows of outputs",
    ),
    Pattern(
        "cuda_graph_per_shape",
        lambda leak: _is_more(leak, kept_pools.GRAPHS) and leak.is_held,
        "{holder} gets more CUDA graphs, or results of them, with each epoch: capture graphs for a few padded shapes "
        "instead of each, into one pool (pool=first.pool()), and reset() those that are done with",
    ),
    Pattern(
        "cuda_graph_per_shape",
        lambda leak: _is_more(leak, kept_pools.GRAPHS),
        "CUDA graphs that are captured anew keep it: capture graphs for a few padded shapes instead of each, into one "
        "pool (pool=first.pool()), and let old graphs go",
    ),
    Pattern(
        "private_pool",
        lambda leak: _is_more(leak, kept_pools.MEM_POOLS),
        "{holder} gets more MemPools with each epoch, each with memory for itself: use one again, or let it go",
    ),
    Pattern(
        "shared",
        lambda leak: _is_more(leak, OTHERS) and leak.is_held,
        "{holder} keeps tensors that another process has shared, and that cannot free them: let them go once they are "
        "used, or keep .cpu() of them",
    ),
    Pattern(
        "shared",
        lambda leak: _is_more(leak, OTHERS),
        "another process has shared it, and cannot free it: let go of what was received, or keep .cpu() of it",
    ),
    Pattern(
        "scalars_kept",  # losses that are logged as tensors, without their graphs: a few hundred bytes each
        lambda leak: leak.holder.is_scalar and not leak.has_graph and leak.kind in ("leak", "suspect"),
        "{holder} keeps single numbers on the GPU, which is harmless",
        is_benign=True,
    ),
    Pattern(
        "bounded_cache",
        _fits_when_full,
        "{holder} fills up: it has {counted} of at most {bound}, and the rest would take {to_come}: no leak by itself",
        is_benign=True,
    ),
    Pattern(
        "unbounded_cache",
        _is_filling,
        "{holder} has {counted} of at most {bound}, and the rest would take {to_come}, more than is left: lower that, "
        "or keep it on the host",
    ),
    Pattern(
        "outputs_kept",
        _is_notebooks_output,
        "{holder} keeps the value of each cell's last line, as long as the notebook runs: end such a line with a "
        "semicolon; %xdel _12 lets go of Out[12], and %reset -f of all variables",
    ),
    Pattern(
        "hook",
        lambda leak: leak.evidence.hooks,
        "the hook {hook}() stores tensors in {holder} at every forward: store "
        "output.detach().cpu(), clear it each step, or remove the hook with handle.remove()",
    ),
    Pattern(
        "metric_state",
        _is_metric,
        "{holder}: a metric gathers states on the GPU; call the metric's reset() after each epoch",
    ),
    Pattern(
        "unbounded_cache",
        lambda leak: leak.holder.name.kind == "cache",
        "{holder} loses no entry: bound it (functools.lru_cache(maxsize=...)), or clear it each epoch "
        "({name}.cache_clear())",
    ),
    Pattern(
        "models_used",
        _is_ensemble,
        "{holder} holds models whose training is over, more with each epoch; as the program reads it meanwhile, "
        "that is taken for meant",
        is_benign=True,
    ),
    Pattern(
        "unbounded_cache",
        _is_list_of_parameters,
        "{holder} gets new parameters, which no optimizer trains, and loses none: bound it, or keep what is not "
        "trained in a buffer of a fixed size",
    ),
    Pattern(
        "checkpoint_copy",
        _is_copy_of_weights,
        "{holder} keeps copies of the weights on the GPU: keep one, and on the host: "
        "{{name: value.cpu() for name, value in model.state_dict().items()}}",
    ),
    Pattern(
        "growing_concatenation",
        _is_concatenation,
        "a tensor is concatenated to what was before, and grows with each step (and is twice in memory meanwhile): "
        "gather the parts on the host, .cpu(), and concatenate once at the end",
    ),
    Pattern(
        "no_grad_evaluation",
        _is_evaluation,
        "evaluation runs with gradients on, and {holder} keeps its graphs: put it under torch.no_grad() "
        "(or torch.inference_mode()), and keep results as .cpu()",
    ),
    Pattern(
        "loss_graph",
        lambda leak: _is_graph(leak) and leak.holder.is_scalar,
        "{holder} holds losses with the graphs that made them: store or add loss.item(), or loss.detach()",
    ),
    Pattern(
        "hidden_state",
        lambda leak: _is_graph(leak) and _is_one_tensor(leak),
        "{holder} carries its graph from step to step, which grows with each: detach it between steps, "
        "{name} = {name}.detach(), and leave out retain_graph=True",
    ),
    Pattern(
        "outputs_kept",
        _is_graph,
        "{holder} holds outputs with the graphs that made them: store output.detach().cpu(); or if the loss is "
        "computed from it, clear it after each backward()",
    ),
    Pattern(
        "model_rebuilt",
        lambda leak: any("'param_groups'" in text for text in _way(leak)),
        "{holder} has parameters that nothing else of the program refers to, so nothing computes with them: "
        "let go of their groups (optimizer.param_groups) and their state, or build a new optimizer",
    ),
    Pattern(
        "model_rebuilt",
        _is_of_models,
        "{holder}: models or optimizers that were built before are still referred to; let go of the model, the "
        "optimizer and what holds their outputs before building the next",
    ),
    Pattern(
        "growing_tensor",
        lambda leak: leak.kind == "growing",
        "{holder} is replaced by a larger one each time: bound its size, or keep it on the host; old and new "
        "are in memory together while it is replaced",
    ),
    Pattern(
        "outputs_kept",
        lambda leak: leak.holder.name.is_librarys,
        "{holder} keeps all that the program has handed to it: hand over .cpu(), or take it back when it is done with "
        "(detach, unregister, close)",
    ),
    Pattern(
        "outputs_kept",
        lambda leak: leak.holder.name.collection in ("list", "deque", "tuple", "set", "ndarray"),
        "{holder} keeps every one of them: store .cpu(), or clear it when they are done with",
    ),
    Pattern(
        "unbounded_cache",
        lambda leak: leak.holder.name.collection in ("dict", "OrderedDict", "defaultdict"),
        "{holder} gets new entries and loses none: bound it, as by taking the oldest out with pop(), or declare that "
        "it is meant with {declared}",
    ),
    Pattern(
        "unknown",
        lambda leak: leak.is_held,
        "{holder} refers to it: let it go each epoch, or declare that it is meant with {declared}",
    ),
    Pattern(
        "shared",
        lambda leak: not leak.evidence.holders and _was_shared(leak),
        "it was shared with another process, which has not let go of it: del what it received there, or clone it and "
        "let go; a handle that no process opens keeps its tensor for ever",
    ),
    Pattern(
        "unknown",
        lambda leak: leak.evidence.is_in_graphs,
        "autograd graphs hold it: something that came out of this line is kept without .detach()",
    ),
    Pattern(
        "unknown",
        lambda leak: leak.evidence.holders,
        "no Python variable was found that holds most of it ({share} is known): look for what "
        "else is made at this line and kept, in a C++ extension, a graph, or an object without attributes",
    ),
    Pattern(
        "unknown",
        lambda leak: True,
        "no Python variable was found that holds it: look for what is made at this line and kept in a C++ "
        "extension, a graph, or an object without attributes",
    ),
)
