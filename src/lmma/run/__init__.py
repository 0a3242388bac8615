"""One run: options in, result out."""
