"""Independent verification: what the labels say, measured again on samples by code that shares nothing with ours."""
