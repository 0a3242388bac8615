"""What strategies are put together from."""
