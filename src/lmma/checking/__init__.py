"""What kind of function is this? Some calls along lines, what they show, and what to do about it."""
