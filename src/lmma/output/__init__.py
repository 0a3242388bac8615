"""Files, tables, figures and reports, made from records alone."""
