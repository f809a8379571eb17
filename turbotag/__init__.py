"""turbotag: linear taggers trained to a proven duality gap."""

__version__ = "0.1.0"
