"""How models are trained from files: `train` takes the options of any task."""

from __future__ import annotations

from typing import Any

from turbotag.training.options import (
    ParserOptions,
    PipelineOptions,
    TaggerOptions,
    TokenizerOptions,
)


def train(
    options: TaggerOptions | ParserOptions | TokenizerOptions | PipelineOptions,
    *how: Any,
    **named: Any,
) -> tuple[Any, Any]:
    """Train what the options ask for; returns (model, result), or (pipeline, header) for a
    pipeline. The other arguments are those of tagger.train, parser.train_parser and so on."""
    if isinstance(options, PipelineOptions):
        from turbotag.training.pipeline import train_pipeline

        return train_pipeline(options, *how, **named)
    from turbotag.training.parser import train_parser
    from turbotag.training.tagger import train as train_tagger
    from turbotag.training.tokenizer import train_tokenizer

    if isinstance(options, ParserOptions):
        return train_parser(options, *how, **named)
    if isinstance(options, TokenizerOptions):
        return train_tokenizer(options, *how, **named)
    return train_tagger(options, *how, **named)
