"""The jobs whose peaks others have published: a function each, by the module of what it trains or loads."""
