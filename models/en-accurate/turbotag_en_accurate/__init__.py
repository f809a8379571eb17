"""An accurate parser of English for turbotag: `turbotag predict en-accurate`."""
