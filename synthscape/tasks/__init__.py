"""Tasks: what is drawn, what is asked and what is right."""
