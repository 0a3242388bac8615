"""What a generation costs inside: ours, other packages', and what they are made of."""
