"""Tests of the GPU kernels and of the mixer on a device."""
