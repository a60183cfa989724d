"""Studies: one YAML in, resumable runs, a frontier out."""
