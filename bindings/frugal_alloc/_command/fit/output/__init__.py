"""A verdict as people read it: ``text``, and ``page`` with a ``chart``.

``text`` and ``page`` share sentences (``wording``) and the table of phases and components (``peaks_table``).
"""
