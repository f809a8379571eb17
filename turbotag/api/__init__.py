"""The library: pipelines on strings, taggers and parsers on lists; no files needed.

import turbotag
nlp = turbotag.load("en")
for sentence in nlp("Ada flew to Oslo.").sentences: ...
"""

import warnings

from turbotag import kernels
from turbotag.api.explaining import explain as explain
from turbotag.api.parser import Parser as Parser
from turbotag.api.pipeline import NLP as NLP
from turbotag.api.pipeline import load as load
from turbotag.api.tagger import Tagger as Tagger
from turbotag.documents.document import Document as Document
from turbotag.documents.document import Entity as Entity
from turbotag.documents.document import Sentence as Sentence
from turbotag.documents.document import Span as Span
from turbotag.documents.document import Token as Token
from turbotag.documents.pictures import draw as draw
from turbotag.report.explanation import Explanation as Explanation

kernels.tell(lambda line: warnings.warn(f"turbotag: {line}", stacklevel=2))
