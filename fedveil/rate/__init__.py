"""Compressed representations: a learned prior, the code made of it, and messages whose bytes are really counted."""
