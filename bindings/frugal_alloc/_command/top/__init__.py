"""What ``frugal-alloc top`` shows: the processes of this machine that run with frugal_alloc, as they are now.

``sockets`` finds who publishes and asks them, ``answers`` brings an answer into form, ``picture`` puts all together,
per process and per GPU. ``layout`` writes that as text, ``screen`` shows it again and again, ``exporter`` serves it to
Prometheus as ``metrics``. Processes publish by bindings/publishing, and leave what a report would say there by
``_report.live_verdicts``.
"""
