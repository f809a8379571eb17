"""Models of Slovene for turbotag: `turbotag predict sl`."""
