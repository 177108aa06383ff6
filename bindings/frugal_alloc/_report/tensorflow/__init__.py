"""What TensorFlow itself writes about its memory, read into a report.

``log.from_log`` reads the dump that its BFC allocator logs when memory runs out, and the memory that a training prints.
tests/reports/tensorflow/README.md says which versions write them how.
"""
