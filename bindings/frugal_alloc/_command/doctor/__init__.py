"""What a machine's GPU and driver really do: the steps of ``frugal-alloc doctor --gpu``, and what carries steps out.

Each step is a module with a function ``run(report)``, carried out in a process of its own (``child``) by ``runner``.
What it finds goes into a ``StepReport``, which keeps what needs values or time from being called passed on the
simulated GPU. Standard library only; torch where a step says so. The steps of ``tools/gpu_check`` that a user does not
need are in tests/hardware. See docs/gpu_check.md.
"""
