"""Stores of clips (pseudovox, backgrounds, impulse responses): reading, writing, and building them."""
