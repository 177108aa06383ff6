"""What the whole project shares."""

shared_seen = []
