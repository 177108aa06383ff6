"""The commands of ``frugal-alloc``. ``cli.main`` reads the command line; each other module and folder is
a command or part of one. Nothing imports from this room but ``__main__``."""
