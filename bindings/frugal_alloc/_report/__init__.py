"""Reports: what is known about a run's memory.

``document.build`` makes a report as plain data, ``files.write`` writes it as JSON and as a page, and ``text`` writes it
for a terminal. ``report.Report`` is the same for programs.
"""
