"""What a real GPU and its driver do: tests that ``FRUGAL_TEST_GPU=real`` runs there, and programs that measure.

``python -m hardware PART`` runs them with limits, as ``run`` of a folder that ``tools/gpu_check`` has packed does. See
docs/gpu_check.md.
"""
