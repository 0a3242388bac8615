"""From records to samples, figures and tables."""
