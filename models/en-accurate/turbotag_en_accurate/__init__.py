"""More accurate models of English for turbotag: `turbotag predict en-accurate`."""
