"""The standard streams, and progress for people who watch them."""
