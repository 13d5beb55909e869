"""Speed and memory, measured side by side with their limits: ``python -m benchmarks``."""
