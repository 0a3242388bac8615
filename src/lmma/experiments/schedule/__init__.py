"""Tasks run side by side, their records kept."""
