"""Computes values for programs on the simulated GPU, whose kernels do nothing (``--values cpu``).

The simulated memory is host memory at the very addresses that PyTorch sees. While the mode is on, each operator first
runs as it would (the allocator sees what it would see), and then once more on the CPU, over views of the same memory.
Operators that a CUDA graph captures are computed whenever the graph is replayed.

What is not as on a GPU, beside the time that it takes:

* Random numbers come from the CPU's default generator.
* Attention uses PyTorch's plain implementation and cuDNN is off, as their operators exist on GPUs alone.
* An operator without a CPU implementation is named once on stderr, and its values are left as they are. Fused LSTM and
  GRU cells are such, and whatever a program launches past PyTorch, as Triton does.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

# Nothing to compute: they make memory without values, or see to a tensor's memory and not to what is in it.
WITHOUT_VALUES = {
    "_local_scalar_dense",
    "_pin_memory",
    "_resize_output_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "is_pinned",
    "new_empty",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "set_",
}

# The shape of the result depends on values, so the CPU has to go first.
SHAPED_BY_VALUES = {
    "_unique",
    "_unique2",
    "bincount",
    "equal",
    "masked_select",
    "multinomial",
    "nms",
    "nonzero",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
}

# They call libraries that the simulated GPU has no stand-ins for (cuSOLVER, MAGMA, cuFFT); the CPU alone can run them.
WITHOUT_LIBRARY = ("linalg_", "_linalg_", "_fft_", "cholesky", "geqrf", "lu_", "ormqr", "triangular_solve")


def _is_cuda(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _host_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a CPU tensor, which owns nothing and must not outlive it."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    memory = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), torch.device("cpu"), storage.nbytes())
    view = torch.empty(0, dtype=tensor.dtype).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        view = view.conj()
    return torch._neg_view(view) if tensor.is_neg() else view


def _on_host(value: Any) -> Any:
    """An argument as the CPU's operator takes it."""
    if _is_cuda(value):
        return _host_view(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


def _adapt(name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments with which the CPU's operator gives the values that the GPU's gives with these."""
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    if name in ("_softmax", "_log_softmax") and args[2]:
        # On a GPU alone, half precision can become float within the operator.
        return (args[0].float(), args[1], False), kwargs
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        # Likewise on the way back; storing the result narrows it.
        return (*args[:3], args[0].dtype), kwargs
    return args, kwargs


def _written(func: Any, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """The tensors among the arguments that the operator writes."""
    values = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            in_order = not argument.kwarg_only and i < len(args)
            values.append(args[i] if in_order else kwargs.get(argument.name))
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Computation:
    """One call of an operator, ready to be computed on the CPU, once or at each replay of a graph.

    Holds views of memory and no CUDA tensor, so that it keeps nothing alive that the program lets go.
    """

    def __init__(self, func: Any, args: tuple, kwargs: dict):
        self.func = func
        self.name = func._schema.name
        args, kwargs = tree_map(_on_host, (args, kwargs))
        self.args, self.kwargs = _adapt(self.name.split("::")[1], args, kwargs)
        self.outputs: list[tuple[int, torch.Tensor]] = []

    def store_into(self, result: Any, besides: set[int]) -> None:
        """Names the tensors that get the values, but for those in the memory of ``besides``."""
        for i, leaf in enumerate(tree_leaves(result)):
            if isinstance(leaf, torch.Tensor) and leaf.numel() > 0 and _address(leaf) not in besides:
                self.outputs.append((i, _host_view(leaf) if _is_cuda(leaf) else leaf))

    def compute(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def compute_and_store(self) -> None:
        try:
            values = tree_leaves(self.compute())
        except (NotImplementedError, RuntimeError) as error:
            _report(self.name, error)
            return
        for i, output in self.outputs:
            if isinstance(values[i], torch.Tensor) and values[i].shape == output.shape:
                output.copy_(values[i])


_reported: set[str] = set()


def _report(name: str, error: Exception) -> None:
    if name not in _reported:
        _reported.add(name)
        reason = str(error).strip().partition("\n")[0][:200]
        print(f"frugal-alloc: the values of {name} are not computed: {reason}", file=sys.stderr)


# The computations of the graphs being captured, by the id of the capture; a graph's way back is captured by another
# thread than its way forth.
_captures: dict[int, list[_Computation]] = {}


def _capture_id() -> int:
    """Of the capture that the current stream takes part in; 0 if none."""
    status, id = ctypes.c_int(), ctypes.c_ulonglong()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    # The simulated GPU's own, which takes the streams of CUDA 12 as well.
    ctypes.CDLL(None).cudaStreamGetCaptureInfo(stream, ctypes.byref(status), ctypes.byref(id), None, None, None, None)
    return id.value if status.value != 0 else 0


class _ComputeOnCpu(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and not _is_plain(leaf) for leaf in leaves):
            with self:  # its own operators are seen again, on plain tensors
                return func(*args, **kwargs)
        name = func._schema.name.split("::")[1]
        on_gpu = any(_is_cuda(leaf) or (isinstance(leaf, torch.device) and leaf.type == "cuda") for leaf in leaves)
        if not on_gpu or name in WITHOUT_VALUES:
            return func(*args, **kwargs)
        with _disable_current_modes(), torch.no_grad():
            if self._cpu_goes_first(name, func, args, kwargs):
                return self._compute_first(func, args, kwargs, leaves)
            return self._run_then_compute(func, args, kwargs, leaves)

    def _cpu_goes_first(self, name: str, func: Any, args: tuple, kwargs: dict) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return False
        return name in SHAPED_BY_VALUES or (name.startswith(WITHOUT_LIBRARY) and not _written(func, args, kwargs))

    def _compute_first(self, func: Any, args: tuple, kwargs: dict, leaves: list) -> Any:
        device = next(leaf.device for leaf in leaves if _is_cuda(leaf))
        return tree_map(
            lambda value: value.to(device) if isinstance(value, torch.Tensor) else value,
            _Computation(func, args, kwargs).compute(),
        )

    def _run_then_compute(self, func: Any, args: tuple, kwargs: dict, leaves: list) -> Any:
        capturing = torch.cuda.is_current_stream_capturing()
        read = {_address(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
        written = _written(func, args, kwargs)
        # Fills and copies are real on the simulated GPU, and would be done twice.
        before = [] if capturing else [(_on_host(tensor), _on_host(tensor).clone()) for tensor in written]
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if not written and all(_address(output) in read for output in outputs):
            return result  # a view
        computation = _Computation(func, args, kwargs)
        computation.store_into(result, besides={_address(tensor) for tensor in written})
        if capturing:
            _captures.setdefault(_capture_id(), []).append(computation)
            return result
        for tensor, content in before:
            tensor.copy_(content)
        computation.compute_and_store()
        return result


def _is_plain(tensor: torch.Tensor) -> bool:
    """Dense, with memory of its own: neither a subclass that wraps others nor sparse."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided


_mode = _ComputeOnCpu()


def _wrap(owner: Any, name: str, wrapper: Callable) -> None:
    """Has calls of a class's method or a module's function go to ``wrapper``, the original as its first argument."""
    wrapped = getattr(owner, name)

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return wrapper(wrapped, *args, **kwargs)

    setattr(owner, name, replacement)


def _capture_end(wrapped: Callable, graph: Any) -> None:
    graph._frugal_computations = _captures.pop(_capture_id(), [])
    wrapped(graph)


def _replay(wrapped: Callable, graph: Any) -> None:
    # The computations are the whole of the graph's effect: its recorded fills and copies must not run as well.
    library = ctypes.CDLL(None)
    library.frugal_sim_set_graph_execution(0)
    try:
        wrapped(graph)
    finally:
        library.frugal_sim_set_graph_execution(1)
    with _disable_current_modes(), torch.no_grad():
        for computation in getattr(graph, "_frugal_computations", []):
            computation.compute_and_store()


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    """Called from within operators as well, which select by a mask."""
    return _host_view(tensor).nonzero().to(tensor.device)


def _run_thread(wrapped: Callable, thread: threading.Thread) -> None:
    with _mode:
        wrapped(thread)


def _print(wrapped: Callable, tensor: torch.Tensor, indent: int) -> str:
    """Printing computes with all modes off."""
    return wrapped(_host_view(tensor.detach()) if _is_cuda(tensor) and _is_plain(tensor) else tensor, indent)


_library: torch.library.Library | None = None


def start() -> None:
    """From here on, this process's operators on CUDA tensors have values; call it once torch is imported."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the real one is replaced
        _library.impl("nonzero", _nonzero, "CUDA")
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    _wrap(torch._tensor_str, "_tensor_str", _print)
    _wrap(torch.cuda.CUDAGraph, "capture_end", _capture_end)
    _wrap(torch.cuda.CUDAGraph, "replay", _replay)
    # Modes are per thread, and threads do not inherit them.
    _wrap(threading.Thread, "_bootstrap_inner", _run_thread)
    _mode.__enter__()
