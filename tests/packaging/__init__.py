"""The package as users get it: built, installed, run from elsewhere."""
