"""What a machine's GPU and driver really do: the steps of ``tools/gpu_check`` and of ``frugal-alloc doctor --gpu``.

Each step is a module with a function ``run(report)``, carried out in a process of its own (``child``) by ``runner``, in
the order of ``steps``. What it finds goes into a ``StepReport``, which keeps what needs values or time from being
called passed on the simulated GPU. Standard library only; torch where a step says so. See docs/gpu_check.md. Imports
from ``_common``, ``_replay`` and ``_simulation``.
"""
