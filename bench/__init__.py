"""`make bench`: the hot paths, each against the plainest code that does the same."""
