"""Datasets in a folder: written shard by shard, read back."""
