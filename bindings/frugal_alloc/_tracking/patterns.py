"""The ways in which programs leak, each with its signature and one line of advice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .._native.sites import Frame, Site
from . import carried, uses
from .holders import Evidence, Holder


class Leak(NamedTuple):
    """What is known of one leak."""

    kind: str  # of the verdict
    site: Site
    frames: tuple[Frame, ...]  # its whole stack, innermost first; of the forward where a backward allocated
    code: str  # the user's line
    where: str  # that line, as "train.py:12"; the phase where no line is known; "": nor a phase
    evidence: Evidence
    was_trained: bool = False  # it is of models that were trained, or their gradients; not an optimizer's state


class Pattern(NamedTuple):
    name: str
    advice: str
    is_benign: bool = False  # grows, but no report should accuse it: the advice is a note


_EVALUATION = re.compile(
    r"(^|_)(eval|evaluate|evaluation|val|valid|validate|validation|test|predict|infer|inference)(_|$)"
)
_PARAMETERS = re.compile(r"\bParameter(List|Dict)\b")
_CONCATENATES = re.compile(r"\b(cat|concat|concatenate|stack|hstack|vstack)\(")


def recognise(leak: Leak) -> Pattern:
    """The pattern that the leak follows; "unknown" if it is none of those known."""
    for rule in _RULES:
        pattern = rule(leak)
        if pattern is not None:
            return pattern
    return _unknown(leak)


def _holder(leak: Leak) -> Holder | None:
    """Who holds most of it; None: that is not known, since what is known to be held is the smaller part."""
    evidence = leak.evidence
    return evidence.holders[0] if evidence.holders and evidence.is_explained else None


def _of(leak: Leak) -> str:
    """The holder in words, with where it is made."""
    holder = _holder(leak)
    if holder is None:
        return "something"
    where = f" (line {holder.name.line})" if holder.name.line else ""
    return holder.name.what + where


def _declared(leak: Leak) -> str:
    """The call that says that the leak is meant."""
    return f'frugal_alloc.expect_growth("{leak.where}")' if leak.where else "frugal_alloc.expect_growth"


def _has_file(leak: Leak, part: str) -> bool:
    return any(part in frame.file for frame in leak.frames)


def _cycle(leak: Leak) -> Pattern | None:
    if leak.kind != "cycle":
        return None
    advice = (
        "a reference cycle holds it until Python's collector runs: break the cycle (a weakref for the way back, no "
        "closure or exception that refers to its own frame), or call gc.collect() once an epoch"
    )
    return Pattern("reference_cycle", advice)


def _exception(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    if holder is None or holder.name.kind != "exception":
        return None
    advice = (
        f"{_of(leak)}: a stored exception keeps its frames with all their tensors; store str(error), or call "
        "traceback.clear_frames(error.__traceback__)"
    )
    return Pattern("stored_exception", advice)


def _hook(leak: Leak) -> Pattern | None:
    if not leak.evidence.hooks:
        return None
    advice = (
        f"the hook {leak.evidence.hooks[0]}() stores tensors in {_of(leak)} at every forward: store "
        "output.detach().cpu(), clear it each step, or remove the hook with handle.remove()"
    )
    return Pattern("hook", advice)


def _hooks_added(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    if holder is None or holder.name.kind != "hooks":
        return None
    advice = (
        f"{_of(leak)}: each call adds one more hook, which keeps what its function uses: register it once, before the "
        "loop, or remove it after use with handle.remove()"
    )
    return Pattern("hooks_added", advice)


def _context(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    if holder is None or holder.name.kind != "context":
        return None
    advice = (
        f"{_of(leak)}: an attribute of ctx that holds an output keeps the graph that made it, and that graph keeps "
        "ctx: use ctx.save_for_backward(), which knows of outputs"
    )
    return Pattern("context_attribute", advice)


def _scalars(leak: Leak) -> Pattern | None:
    """Losses that are logged as tensors, without their graphs: a few hundred bytes each."""
    holder = _holder(leak)
    is_log = holder is not None and holder.is_scalar and not holder.has_graph and not leak.evidence.is_in_graphs
    if not is_log or leak.kind not in ("leak", "suspect"):
        return None
    return Pattern("scalars_kept", f"{_of(leak)} keeps single numbers on the GPU, which is harmless", is_benign=True)


def _metric(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    is_metric = _has_file(leak, "torchmetrics") or (
        holder is not None and holder.name.holder.lower().endswith("metric")
    )
    if not is_metric:
        return None
    return Pattern(
        "metric_state", f"{_of(leak)}: a metric gathers states on the GPU; call its reset() after each epoch"
    )


def _checkpoint(leak: Leak) -> Pattern | None:
    copied = any(frame.function in ("deepcopy", "_deepcopy_dict", "state_dict") for frame in leak.frames)
    if not copied and "state_dict" not in leak.code and "deepcopy" not in leak.code:
        return None
    advice = (
        f"{_of(leak)} keeps copies of the weights on the GPU: keep one, and on the host: "
        "{name: value.cpu() for name, value in model.state_dict().items()}"
    )
    return Pattern("checkpoint_copy", advice)


def _parameters(leak: Leak) -> Pattern | None:
    """Of one module, to which they are added; not of a model each."""
    holder = _holder(leak)
    if holder is None or leak.was_trained or not _PARAMETERS.search(f"{holder.name.what} {holder.name.through}"):
        return None
    advice = (
        f"{_of(leak)} gets new parameters, which no optimizer trains, and loses none: bound it, or store .cpu(); what "
        "is not trained is better in a buffer of a fixed size"
    )
    return Pattern("unbounded_cache", advice)


def _model(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    held = (holder.name.what, holder.name.through) if holder is not None else ()
    if any("'param_groups'" in text for text in held):
        advice = (
            f"{_of(leak)} has parameters that nothing else of the program refers to, so nothing computes with them: "
            "let go of their groups (optimizer.param_groups) and their state, or build a new optimizer"
        )
        return Pattern("model_rebuilt", advice)
    is_parameter = any(text.startswith(("parameter ", "Parameter ")) for text in held)
    if not is_parameter and not _has_file(leak, "/torch/optim/"):
        return None
    advice = (
        f"{_of(leak)}: models or optimizers that were built before are still referred to; let go of the model, the "
        "optimizer and what holds their outputs before building the next"
    )
    return Pattern("model_rebuilt", advice)


def _ensemble(leak: Leak) -> Pattern | None:
    """Models that were trained and are used since, as by boosting: told from models that are merely kept."""
    holder = _holder(leak)
    if not leak.was_trained or holder is None or not holder.name.file:
        return None
    if not uses.is_used_in_passing(holder.name.file, holder.name.name.partition("[")[0]):
        return None
    advice = (
        f"{_of(leak)} holds models whose training is over, more with each epoch; as the program reads it meanwhile, "
        "that is taken for meant"
    )
    return Pattern("models_used", advice, is_benign=True)


def _concatenation(leak: Leak) -> Pattern | None:
    # Where there are more tensors with each epoch, each was concatenated once, and something else gathers them.
    is_concatenated = leak.kind == "growing" and (leak.evidence.is_concatenated or _CONCATENATES.search(leak.code))
    # Each part of it that a graph keeps is another tensor.
    if not is_concatenated or leak.evidence.is_in_graphs:
        return None
    advice = (
        "a tensor is concatenated to what was before, and grows with each step (and is twice in memory meanwhile): "
        "gather the parts on the host, .cpu(), and concatenate once at the end"
    )
    return Pattern("growing_concatenation", advice)


def _is_evaluation(leak: Leak) -> bool:
    names = [leak.site.phase, *(frame.function for frame in leak.frames)]
    return any(_EVALUATION.search(name.lower()) for name in names)


def _evaluation(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    has_graph = leak.evidence.is_in_graphs or (holder is not None and holder.has_graph)
    if not has_graph or not _is_evaluation(leak):
        return None
    advice = (
        f"evaluation runs with gradients on, and {_of(leak)} keeps its graphs: put it under torch.no_grad() "
        "(or torch.inference_mode()), and keep results as .cpu()"
    )
    return Pattern("no_grad_evaluation", advice)


def _graph(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    if holder is None or not (leak.evidence.is_in_graphs or holder.has_graph):
        return None
    what = _of(leak)
    if holder.is_scalar:
        advice = f"{what} holds losses with the graphs that made them: store or add loss.item(), or loss.detach()"
        return Pattern("loss_graph", advice)
    if holder.name.collection == "tensor" and holder.name.kind in ("variable", "attribute", "buffer"):
        advice = (
            f"{what} carries its graph from step to step, which grows with each: detach it between steps, "
            f"{holder.name.name} = {holder.name.name}.detach(), and leave out retain_graph=True"
        )
        return Pattern("hidden_state", advice)
    advice = (
        f"{what} holds outputs with the graphs that made them: store output.detach().cpu(); or if the loss is computed "
        "from it, clear it after each backward()"
    )
    return Pattern("outputs_kept", advice)


def _collection(leak: Leak) -> Pattern | None:
    holder = _holder(leak)
    if holder is None:
        return None
    held_in = holder.name.collection
    if holder.name.is_librarys:
        advice = (
            f"{_of(leak)} keeps all that the program has handed to it: hand over .cpu() or a number, or take it back "
            "when it is done with (detach, unregister, close)"
        )
        return Pattern("outputs_kept", advice)
    if holder.name.kind == "cache":
        advice = f"{_of(leak)} loses no entry: bound it (functools.lru_cache(maxsize=...)), or clear it each epoch"
        return Pattern("unbounded_cache", advice)
    if held_in in ("list", "deque", "tuple", "set", "ndarray"):
        advice = f"{_of(leak)} keeps every one of them: store .cpu(), or what is needed of it as a number, or clear it"
        return Pattern("outputs_kept", advice)
    if held_in in ("dict", "OrderedDict", "defaultdict"):
        advice = (
            f"{_of(leak)} gets new entries and loses none: bound it (functools.lru_cache(maxsize=...)), or declare "
            f"that it is meant with {_declared(leak)}"
        )
        return Pattern("unbounded_cache", advice)
    return None


def _made_anew(leak: Leak) -> Pattern | None:
    """Results that become larger since what they are made from does: longer sequences, or another tensor that grows."""
    if leak.kind != "growing" or _holder(leak) is None:
        return None
    # Who has it besides keeps it, too.
    for name in [*(holder.name for holder in leak.evidence.holders), *leak.evidence.passed_over]:
        is_result = name.kind == "variable" and name.collection == "tensor" and "[" not in name.name
        if not is_result or not name.file or carried.is_carried(name.file, name.function, name.name):
            return None
    advice = f"{_of(leak)} is made anew each time, and larger since what it is made from is: no leak by itself"
    return Pattern("made_anew", advice, is_benign=True)


def _growing(leak: Leak) -> Pattern | None:
    if leak.kind != "growing":
        return None
    advice = (
        f"{_of(leak)} is replaced by a larger one each time: bound its size, or keep it on the host; old and new "
        "are in memory together while it is replaced"
    )
    return Pattern("growing_tensor", advice)


def _unknown(leak: Leak) -> Pattern:
    holder = _holder(leak)
    if holder is not None:
        advice = f"{_of(leak)} refers to it: let it go each epoch, or declare that it is meant with {_declared(leak)}"
    elif leak.evidence.is_in_graphs:
        advice = "autograd graphs hold it: something that came out of this line is kept without .detach()"
    elif leak.evidence.holders:
        advice = (
            f"no Python variable was found that holds most of it ({leak.evidence.share:.0%} is known): look for what "
            "else is made at this line and kept, in a C++ extension, a graph, or an object without attributes"
        )
    else:
        advice = (
            "no Python variable was found that holds it: look for what is made at this line and kept in a C++ "
            "extension, a graph, or an object without attributes"
        )
    return Pattern("unknown", advice)


_RULES: tuple[Callable[[Leak], Pattern | None], ...] = (
    _cycle,
    _made_anew,
    _exception,
    _hooks_added,
    _context,
    _scalars,
    _hook,
    _metric,
    _ensemble,
    _parameters,
    _checkpoint,
    _concatenation,
    _evaluation,
    _graph,
    _model,
    _growing,
    _collection,
)
