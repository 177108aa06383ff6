"""A verdict as people and programs read it: ``text``, ``page`` with a ``chart``, and ``document``, which is JSON.

``text`` and ``page`` share sentences (``wording``) and the table of phases and components (``peaks_table``).

Imports from ``_amounts``, ``_fit``, ``_messages``, ``_pages`` and ``_program``.
"""
