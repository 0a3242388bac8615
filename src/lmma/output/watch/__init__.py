"""Live page of logs: read while runs write them, drawn in a browser, served to the local machine only."""
