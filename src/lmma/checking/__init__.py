"""The function check: calls along lines, measurements, classification and advice."""
