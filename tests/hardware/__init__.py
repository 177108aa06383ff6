"""What a real GPU and its driver do: the steps of ``tools/gpu_check``, as ``python -m hardware`` carries them out.

Each is a module with a function ``run(report)``, in a process of its own: see ``frugal_alloc._command.doctor``, which
has those of ``frugal-alloc doctor --gpu``, too. Not tests of pytest, since a step has a limit, a share of the time, and
figures. See docs/gpu_check.md.
"""
