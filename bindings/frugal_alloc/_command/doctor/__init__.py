"""``frugal-alloc doctor``: what is here and works (``command``); with ``--gpu``, what the driver really does (``gpu``).

Each probe of the GPU is a module with a function ``run(report)``, carried out in a process of its own (``probe``). By
cuda-bindings and torch, which are imported there. The tests that take longer are in tests/hardware: docs/gpu_check.md.
"""
