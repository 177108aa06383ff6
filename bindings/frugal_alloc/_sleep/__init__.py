"""Memory that sleeps: the tags by which a program names what its memory is for, and what goes to the host and comes
back."""
