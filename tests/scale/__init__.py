"""Tests of rendering at scale."""
