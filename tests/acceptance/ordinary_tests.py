"""Tests as PyTorch's own are written, for `test_failing_calls`: what a program relies on while all is well."""

from __future__ import annotations

import ctypes
import itertools
import unittest

import torch

MIB = 1 << 20

gpu = ctypes.CDLL("libcudart.so.13")
gpu.frugal_sim_set_clock.argtypes = [ctypes.c_uint64]
gpu.frugal_sim_set_stream_busy_until.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
# The clock stands still but for waits.
gpu.frugal_sim_set_clock(0)
moments = itertools.count(1000, 1000)


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


class Ordinary(unittest.TestCase):
    def setUp(self) -> None:
        torch.cuda.empty_cache()
        self.before = torch.cuda.memory_allocated()

    def test_figures_are_those_of_the_tensors(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        tensors = [empty(size * MIB) for size in (1, 3, 20, 64)]
        self.assertEqual(torch.cuda.memory_allocated() - self.before, 88 * MIB)
        del tensors[1], tensors[1]
        tensors.append(empty(22 * MIB))
        self.assertEqual(torch.cuda.memory_allocated() - self.before, 87 * MIB)
        self.assertEqual(torch.cuda.max_memory_allocated() - self.before, 88 * MIB)
        stats = torch.cuda.memory_stats()
        self.assertEqual(stats["active_bytes.all.current"], torch.cuda.memory_allocated())

    def test_empty_cache_gives_all_back(self) -> None:
        reserved = torch.cuda.memory_reserved()
        del_me = [empty(2 * MIB) for _ in range(20)]
        del del_me[::2]
        large = empty(16 * MIB)
        del del_me, large
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved(), reserved)

    def test_snapshot_and_statistics_agree(self) -> None:
        kept = [empty(5 * MIB) for _ in range(6)]
        del kept[1:4:2]
        segments = torch.cuda.memory_snapshot()
        self.assertEqual(sum(s["allocated_size"] for s in segments), torch.cuda.memory_allocated())
        self.assertEqual(sum(s["total_size"] for s in segments), torch.cuda.memory_reserved())
        for segment in segments:
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])

    def test_memory_of_another_stream_is_used_in_order(self) -> None:
        side = torch.cuda.Stream()
        tensor = empty(8 * MIB)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            tensor.fill_(1)
        gpu.frugal_sim_set_stream_busy_until(side.cuda_stream, next(moments))
        tensor.record_stream(side)
        del tensor
        # Whether that is in order, the simulated GPU checks.
        for _ in range(3):
            empty(8 * MIB).fill_(2)

    def test_graph_can_be_captured_and_replayed(self) -> None:
        static = torch.zeros(MIB, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = static + 1
        del result
        between = empty(30 * MIB)
        graph.replay()
        del between, graph

    def test_full_device_raises_and_recovers(self) -> None:
        free, total = torch.cuda.mem_get_info()
        whole = empty(free - 64 * MIB)
        with self.assertRaisesRegex(torch.OutOfMemoryError, "Tried to allocate"):
            empty(total // 2)
        del whole
        self.assertEqual(empty(total // 2).numel(), total // 2)

    def test_fraction_holds(self) -> None:
        _, total = torch.cuda.mem_get_info()
        torch.cuda.set_per_process_memory_fraction(0.25)
        try:
            with self.assertRaises(torch.OutOfMemoryError):
                empty(total // 2)
            self.assertEqual(empty(total // 8).numel(), total // 8)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)


kept: list[torch.Tensor] = []


class Unsound(unittest.TestCase):
    """What fails when a call of the driver's does, or loses memory then: for the judge to find."""

    def test_makes_driver_calls_of_its_own(self) -> None:
        # Makes the GPU's context the thread's, without which the driver asks for one.
        torch.cuda.synchronize()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        status = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        self.assertEqual(status, 0)

    def test_keeps_a_tensor_each_time(self) -> None:
        kept.append(empty(3 * MIB))
