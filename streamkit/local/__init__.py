"""A real model on this machine, without a key."""
