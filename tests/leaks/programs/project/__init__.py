"""Modules of the user's own, beside the programs that import them."""
