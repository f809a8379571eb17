"""Pictures of dependency trees and entities: an SVG, an HTML page, or text for a terminal."""

from turbotag.report.draw_ascii import ascii
from turbotag.report.draw_html import html
from turbotag.report.draw_svg import svg
from turbotag.report.drawing import Drawing, read_drawings

__all__ = ["Drawing", "ascii", "html", "read_drawings", "svg"]
