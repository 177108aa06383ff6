"""What bench/ablate.py is made of: plays of the policy alone, its rivals' figures, choices, bars and tables."""
