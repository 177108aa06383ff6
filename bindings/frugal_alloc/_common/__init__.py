"""What every room may use: messages and amounts, command lines, files that are read and written, what is installed.

``startup/`` is what an interpreter starts.
"""
