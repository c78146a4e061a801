"""Results for readers: one file per format. Engines know none of them."""
