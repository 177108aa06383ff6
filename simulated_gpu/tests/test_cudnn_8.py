"""cuDNN 8, called as PyTorch before 2.4 calls it; no such PyTorch is needed."""

from __future__ import annotations

from checkout import output_of
from torch import nn

# An LSTM of two layers, and the descriptor of one of its steps: three sequences with 32 features.
PREPARE = """
import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p
cudnn = ctypes.CDLL("libcudnn.so.8")
handle, rnn, step, weights = c_void_p(), c_void_p(), c_void_p(), c_void_p()
def call(function, *arguments):
    error = function(*arguments)
    assert error == 0, (function.__name__, error)
call(cudnn.cudnnCreate, byref(handle))
call(cudnn.cudnnCreateRNNDescriptor, byref(rnn))
call(cudnn.cudnnSetRNNDescriptor_v6, handle, rnn, 64, 2, None, 0, 0, 2, 0, 0)
call(cudnn.cudnnCreateTensorDescriptor, byref(step))
call(cudnn.cudnnSetTensorNdDescriptor, step, 0, 3, (c_int * 3)(3, 32, 1), (c_int * 3)(32, 1, 1))
call(cudnn.cudnnCreateFilterDescriptor, byref(weights))
size = c_size_t()
"""


def output(code: str) -> str:
    return output_of(PREPARE + code)


def test_it_says_that_it_is_cudnn_8() -> None:
    assert output("cudnn.cudnnGetVersion.restype = c_size_t; print(cudnn.cudnnGetVersion())") == "8900\n"


def test_weights_of_a_recurrent_network_are_those_of_pytorchs_module() -> None:
    out = output("call(cudnn.cudnnGetRNNParamsSize, handle, rnn, step, byref(size), 0); print(size.value)")
    assert int(out) == 4 * sum(parameter.numel() for parameter in nn.LSTM(32, 64, 2).parameters())


def test_each_matrix_of_a_layer_has_its_place_and_shape() -> None:
    out = output(
        "start, found = c_void_p(1 << 20), c_void_p()\n"
        "shape, ignored = (c_int * 3)(), c_int()\n"
        "for layer, matrix in (0, 0), (0, 1), (1, 0):\n"
        "    call(cudnn.cudnnGetRNNLinLayerMatrixParams, handle, rnn, layer, step, weights, start, matrix, weights,\n"
        "         byref(found))\n"
        "    call(cudnn.cudnnGetFilterNdDescriptor, weights, 3, *[byref(ignored)] * 3, shape)\n"
        "    print((found.value - start.value) // 4, *shape)\n"
    )
    # Of the first layer four gates' matrices for the input, then four for the hidden state.
    assert out.splitlines() == ["0 1 64 32", "2048 1 64 32", f"{4 * 2048 + 4 * 4096} 1 64 64"]


def test_training_keeps_more_than_a_pass_forth() -> None:
    out = output(
        "call(cudnn.cudnnGetRNNTrainingReserveSize, handle, rnn, 5, byref(step), byref(size)); kept = size.value\n"
        "call(cudnn.cudnnGetRNNWorkspaceSize, handle, rnn, 5, byref(step), byref(size)); print(kept, size.value)\n"
    )
    # Five gates and states of two layers, for five steps of three sequences; workspaces are not modelled here.
    assert out == f"{4 * 5 * 3 * 2 * 5 * 64} 0\n"
