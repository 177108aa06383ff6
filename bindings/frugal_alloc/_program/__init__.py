"""The user's program as it runs: whose code a file is, how a line is written, which variables may still be read.

Its modules are used one by one. Imports nothing of the package, so every other room may use it.
"""
