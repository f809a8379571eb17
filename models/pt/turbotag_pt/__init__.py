"""Models of Portuguese for turbotag: `turbotag predict pt`."""
