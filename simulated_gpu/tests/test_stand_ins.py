"""PyTorch on the stand-ins for NVIDIA's libraries. Runs on the simulated GPU; values are not computed."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"
# Says from which folders NVRTC was loaded.
COMPILE = """
import os, torch
torch.linalg.det(torch.ones(4, 4, dtype=torch.complex64, device="cuda"))
with open("/proc/self/maps") as maps:
    for path in {line.split(maxsplit=5)[5].strip() for line in maps if "libnvrtc" in line}:
        print(os.path.basename(path).split(".")[0], os.path.dirname(path))
"""


def launches() -> int:
    """Kernels launched so far in this process."""
    count = ctypes.CDLL(None).frugal_sim_calls
    count.restype, count.argtypes = ctypes.c_uint64, [ctypes.c_char_p]
    return count(b"launch")


def train(module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    """One step forth and back; every parameter gets a gradient of its shape."""
    output = module(*inputs)
    output = output[0] if isinstance(output, tuple) else output
    output.float().sum().backward()
    for parameter in module.parameters():
        assert parameter.grad.shape == parameter.shape
    return output


def test_every_function_that_torch_names_is_there() -> None:
    # With lazy binding a missing one would show only when it is called.
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.ones(1, device='cuda')"],
        env=os.environ | {"LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_matrix_product_is_a_kernel(dtype: torch.dtype) -> None:
    left, right = torch.ones(8, 4, device=DEVICE, dtype=dtype), torch.ones(4, 6, device=DEVICE, dtype=dtype)
    before = launches()
    assert (left @ right).shape == (8, 6)
    assert launches() > before


def test_batched_integer_and_biased_products_have_their_shapes() -> None:
    assert torch.bmm(torch.ones(2, 3, 4, device=DEVICE), torch.ones(2, 4, 5, device=DEVICE)).shape == (2, 3, 5)
    assert torch.dot(torch.ones(5, device=DEVICE), torch.ones(5, device=DEVICE)).shape == ()
    matrix, weight, bias = (torch.ones(size, device=DEVICE) for size in ((3, 4), (5, 4), 5))
    assert F.linear(matrix, weight, bias).shape == (3, 5)
    eights = torch.ones(32, 32, dtype=torch.int8, device=DEVICE)
    assert torch._int_mm(eights, eights).dtype == torch.int32


def test_cudnn_counts_as_present_and_new_enough() -> None:
    assert torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.enabled
    assert torch.backends.cudnn.version() // 10000 == 9


@pytest.mark.parametrize("benchmark", [False, True])
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(4, 8, 3), (2, 4, 32)),
        (nn.Conv2d(4, 8, 3, padding=1), (2, 4, 32, 32)),
        (nn.Conv2d(4, 8, 3, groups=2, stride=2), (2, 4, 32, 32)),
        (nn.Conv3d(4, 8, 3), (2, 4, 8, 8, 8)),
        (nn.ConvTranspose2d(4, 8, 3), (2, 4, 16, 16)),
    ],
)
def test_convolution_trains_with_cudnn(module: nn.Module, shape: tuple, benchmark: bool) -> None:
    with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark):
        output = train(module.to(DEVICE), torch.zeros(shape, device=DEVICE, requires_grad=True))
    assert output.shape[:2] == (2, 8)


def test_convolution_is_cudnns() -> None:
    torch.zeros(1, device=DEVICE)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        nn.Conv2d(4, 8, 3).to(DEVICE)(torch.zeros(2, 4, 8, 8, device=DEVICE))
    assert "aten::cudnn_convolution" in {event.key for event in profile.key_averages()}


class Residual(nn.Module):
    """Convolution, normalisation, pooling and a shortcut: a network in small."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.stem(images)
        return self.head((features + self.block(features)).mean((2, 3)))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_network_trains_under_autocast(dtype: torch.dtype | None, layout: torch.memory_format) -> None:
    model = Residual().to(DEVICE, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    images, labels = torch.zeros(4, 3, 32, 32, device=DEVICE), torch.zeros(4, dtype=torch.long, device=DEVICE)
    with torch.autocast("cuda", dtype or torch.float32, enabled=dtype is not None):
        loss = F.cross_entropy(model(images.to(memory_format=layout)), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    assert len(optimizer.state) == len(list(model.parameters()))


def test_resnet18_trains() -> None:
    models = pytest.importorskip("torchvision").models
    train(models.resnet18(weights=None).to(DEVICE), torch.zeros(2, 3, 64, 64, device=DEVICE))


@pytest.mark.parametrize("backend", [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_trains(backend: SDPBackend, causal: bool) -> None:
    query = torch.zeros(2, 4, 128, 64, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    with sdpa_kernel(backend):
        output = F.scaled_dot_product_attention(query, query, query, is_causal=causal)
    output.sum().backward()
    assert output.shape == query.grad.shape == query.shape


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"bias": False}, {"dropout": 0.5}])
def test_recurrent_network_trains(kind: type[nn.RNNBase], options: dict) -> None:
    module = kind(10, 20, num_layers=2, **options).to(DEVICE)
    output = train(module, torch.zeros(5, 3, 10, device=DEVICE))
    assert output.shape == (5, 3, 40 if options.get("bidirectional") else 20)


def test_projected_and_packed_sequences_train() -> None:
    assert train(nn.LSTM(10, 20, proj_size=7).to(DEVICE), torch.zeros(5, 3, 10, device=DEVICE)).shape == (5, 3, 7)
    packed = nn.utils.rnn.pack_sequence([torch.zeros(n, 10, device=DEVICE) for n in (5, 3, 2)])
    assert nn.LSTM(10, 20).to(DEVICE)(packed)[0].data.shape == (10, 20)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"bias": False}, {"proj_size": 7}])
def test_flattened_recurrent_weights_lie_side_by_side_and_keep_their_values(options: dict) -> None:
    module = nn.LSTM(10, 20, num_layers=2, **options)
    expected = [weight.detach().clone() for weight in module.parameters()]
    module.to(DEVICE)
    module.flatten_parameters()
    weights = list(module.parameters())
    assert len({weight.untyped_storage().data_ptr() for weight in weights}) == 1
    places = sorted((weight.data_ptr(), weight.data_ptr() + weight.nbytes) for weight in weights)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
    for weight, value in zip(weights, expected, strict=True):
        assert torch.equal(weight.detach().cpu(), value)


def regular(*batch: int) -> torch.Tensor:
    return torch.eye(6, device=DEVICE).expand(*batch, 6, 6).contiguous()


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("routine", "shapes"),
    [
        (torch.linalg.inv, [(6, 6)]),
        (torch.linalg.det, [()]),
        (torch.linalg.cholesky, [(6, 6)]),
        (torch.linalg.svd, [(6, 6), (6,), (6, 6)]),
        (torch.linalg.svdvals, [(6,)]),
        (torch.linalg.eigh, [(6,), (6, 6)]),
        (torch.linalg.eig, [(6,), (6, 6)]),
        (torch.linalg.qr, [(6, 6), (6, 6)]),
        (torch.linalg.lu_factor, [(6, 6), (6,)]),
        (torch.linalg.ldl_factor, [(6, 6), (6,)]),
        (torch.linalg.pinv, [(6, 6)]),
        (lambda matrix: torch.linalg.solve(matrix, matrix), [(6, 6)]),
        (lambda matrix: torch.linalg.lstsq(matrix, matrix).solution, [(6, 6)]),
        (lambda matrix: torch.cholesky_solve(matrix, torch.linalg.cholesky(matrix)), [(6, 6)]),
    ],
)
def test_linear_algebra_gives_its_shapes(routine: Callable, shapes: list[tuple], batch: tuple) -> None:
    results = routine(regular(*batch))
    results = [results] if isinstance(results, torch.Tensor) else results
    assert [result.shape for result in results] == [batch + shape for shape in shapes]


def test_linear_algebra_takes_its_workspace_from_the_allocator() -> None:
    matrix = torch.eye(512, device=DEVICE)
    torch.linalg.svdvals(matrix)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.linalg.svdvals(matrix)
    smallest_workspace = 4 * 512 * 512 * 4
    assert torch.cuda.max_memory_allocated() - before > smallest_workspace


def test_routine_reports_success_where_the_memory_said_otherwise() -> None:
    control = ctypes.CDLL("libcusolver.so.12")
    handle, info = ctypes.c_void_p(), torch.full((4,), 5, dtype=torch.int32, device=DEVICE)
    assert control.cusolverDnCreate(ctypes.byref(handle)) == 0
    assert control.cusolverDnSpotrfBatched(handle, 0, 2, None, 2, ctypes.c_void_p(info.data_ptr()), 3) == 0
    assert info.cpu().numpy().tolist() == [0, 0, 0, 5]


@pytest.mark.parametrize("transform", [torch.fft.fft, torch.fft.fft2, torch.fft.rfft, torch.fft.irfft2])
def test_fourier_transform_gives_its_shape(transform: Callable) -> None:
    dtype = torch.float32 if transform is torch.fft.rfft else torch.complex64
    assert transform(torch.zeros(3, 8, 8, device=DEVICE, dtype=dtype)).shape[:2] == (3, 8)


def test_fourier_transform_is_a_kernel_and_takes_its_workspace_from_the_allocator() -> None:
    signal = torch.zeros(64, 1024, device=DEVICE, dtype=torch.complex64)
    torch.fft.fft(signal)
    torch.cuda.reset_peak_memory_stats()
    before, launched = torch.cuda.memory_allocated(), launches()
    torch.fft.fft(signal)
    assert torch.cuda.max_memory_allocated() - before == 2 * signal.nbytes
    assert launches() > launched


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_product_trains(layout: torch.layout) -> None:
    sparse = torch.eye(6).to_sparse(layout=layout).to(DEVICE)
    weight = torch.zeros(6, 4, device=DEVICE, requires_grad=True)
    (sparse @ weight).sum().backward()
    assert weight.grad.shape == (6, 4)


def test_product_of_sparse_matrices_has_as_many_entries_as_the_fuller_one() -> None:
    left = torch.eye(6).to_sparse_csr().to(DEVICE)
    right = torch.ones(6, 6).to_sparse_csr().to(DEVICE)
    assert (left @ right).values().shape == (36,)
    assert (left + right).values().shape == (36,)


def test_libraries_work_on_the_stream_that_captures() -> None:
    model = Residual().to(DEVICE)
    images = torch.zeros(4, 3, 32, 32, device=DEVICE)
    with torch.no_grad():
        model(images)
        graph = torch.cuda.CUDAGraph()
        # On any other stream, a launch would not be allowed here.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            output = model(images)
        before = launches()
        graph.replay()
    assert output.shape == (4, 10)
    assert launches() > before


def test_what_is_not_simulated_says_so() -> None:
    code = "import ctypes; print(ctypes.CDLL('libcublas.so.13').cublasGetVectorAsync(None))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"FRUGAL_SIM_VERBOSE": "1"}, capture_output=True, text=True
    )
    assert done.stdout == "15\n"  # CUBLAS_STATUS_NOT_SUPPORTED
    assert "cublasGetVectorAsync is not simulated" in done.stderr


def test_what_no_program_refers_to_is_not_there() -> None:
    assert not hasattr(ctypes.CDLL("libcublas.so.13"), "cublasXtCreate")
    assert not hasattr(ctypes.CDLL("libcudart.so.13"), "cudaMallocArray")


def test_refused_launch_is_an_error_of_the_library() -> None:
    matrix = torch.ones(8, 8, device=DEVICE)
    matrix @ matrix
    control = ctypes.CDLL(None)
    assert control.frugal_sim_set_faults(b"launch@1=out_of_memory") == 0
    try:
        with pytest.raises(RuntimeError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
            matrix @ matrix
    finally:
        control.frugal_sim_set_faults(b"")


def test_profiler_is_told_where_to_begin_and_to_end() -> None:
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()


def test_tensor_map_can_be_encoded() -> None:
    # Triton prints what it was asked for where it cannot.
    tensor_map = ctypes.create_string_buffer(256)
    aligned = ctypes.c_void_p((ctypes.addressof(tensor_map) + 63) // 64 * 64)
    assert ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(aligned, 7, 2, *[None] * 5, 0, 0, 0, 0) == 0


def test_what_torch_compiles_as_it_runs_needs_no_cuda_toolkit() -> None:
    # Without the cache that torch keeps of what it has compiled.
    uncached = os.environ | {"USE_PYTORCH_KERNEL_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=uncached, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert folders["libnvrtc-builtins"] == folders["libnvrtc"]
