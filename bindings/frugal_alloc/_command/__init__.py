"""The commands of frugal-alloc."""
