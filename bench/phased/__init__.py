"""What programs with phases still get at their end: the parts of //bench:left_over."""
