"""Runs the command in this process."""

from carried_out import command  # noqa: F401
