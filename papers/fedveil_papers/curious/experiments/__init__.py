"""The experiments behind the presets `curious/…`: one file for each kind, and files for what they share."""
