"""The simulated GPU as Python sees it: its processes, what it computes, and what was declared to use memory."""
