"""The memory of programs without a GPU: ``fit`` says whether one fits, ``check`` what changed; ``replay`` plays one.

A program is ``followed`` on the simulated GPU, and keeps a journal of what its allocator was asked: the library's, or a
``history_journal``. A ``timeline`` says which blocks are live after each entry. No room of the allocator imports this.
"""
