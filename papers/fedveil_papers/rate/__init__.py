"""Attri-Fed's accounting, and its rival DP-SGD."""
