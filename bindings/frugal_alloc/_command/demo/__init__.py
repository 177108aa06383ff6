"""What the allocator does, on three small programs and a simulated GPU: ``frugal-alloc demo``.

``command`` runs the programs of ``programs/``, each in a process of its own, and shows what they print.
"""
