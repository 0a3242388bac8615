"""Analysis of records: samples, figures and tables."""
