"""The experiments behind the presets `curious/…`: one file for each kind, and what they share beside them."""
