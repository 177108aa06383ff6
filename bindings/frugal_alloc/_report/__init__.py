"""Reports: what is known about a run's memory.

``document.build`` makes a report as plain data, ``files.write`` writes it as JSON and as a page, and ``text`` writes it
for a terminal. ``report.Report`` is the same for programs. Imports from ``_common``, ``_interruptions``, ``_native``,
``_pages``, ``_program`` and ``_tracking``.
"""
