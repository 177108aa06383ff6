"""What ``frugal-alloc top`` shows: the processes of this machine that run with frugal_alloc, as they are now.

``sockets`` finds who publishes, asks them and brings the answers into form, ``picture`` puts all together, per process
and per GPU. ``layout`` writes that as text, ``command`` shows it again and again, ``metrics`` are what Prometheus gets.
Processes publish by bindings/publishing, and leave there what a report would say (``_report.live_verdicts``).
"""
