"""python -m turbotag."""

from turbotag.cli.main import main

main()
