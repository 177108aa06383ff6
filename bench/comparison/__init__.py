"""What bench/compare.py is made of: plays of the policy alone, its rivals' figures, demands, choices and tables."""
