"""Rendering datasets: one function per shard, run one after the other or on threads."""
