"""What a journal's marks and labels say: texts, which a program's followers write and whoever reads it knows."""

#: Marks.
BACKWARD, AFTER_BACKWARD = "backward begins", "backward ended"
OPTIMIZER, AFTER_OPTIMIZER = "optimizer begins", "optimizer ended"
STEP, END = "step ended", "end"
#: Labels that the machine gives, by address; the others are components of a verdict of ``fit``.
COPIED_FROM_HOST, WORKSPACE = "copied from host", "workspace"
#: More labels of an optimizer's state, of floating-point numbers, with the bytes that each takes.
NUMBERS = {f"numbers of {size} bytes": size for size in (2, 4)}
