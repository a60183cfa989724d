"""The data sets that come with fedveil, one short file each."""
