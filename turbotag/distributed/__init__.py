"""Dual ascent on shards: one algorithm for the threads of a machine and for many machines.

shard     the sentences, dual variables and sampling weights of one worker, and its steps
changes   what a shard has changed of the weights: kept, cut into pieces, merged
sharded   the optimizer: rounds of all shards, a line search, a certificate over all of them
engine    who calls the shards: threads of this process, or the actors of Ray
"""
