"""Planned scenes to audio: levels, one definition of SNR, peak safety."""
