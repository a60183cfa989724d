"""Attri-Fed's figures: a study of compressed representations, its privacy accounting, and its rival DP-SGD."""
