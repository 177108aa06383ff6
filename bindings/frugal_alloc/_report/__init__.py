"""Reports: what is known about a run's memory, as a document (JSON), as text and as a page."""
