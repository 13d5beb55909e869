"""Hot loops over plain arrays: no species, no YAML, no files."""
