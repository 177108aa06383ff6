"""Histories of programs, and replaying them."""
