"""The user's program as it runs: its code, its lines, its names and its variables."""
