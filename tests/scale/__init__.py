"""Tests of rendering at scale: engines, stopping, killing, full disks, several processes."""
