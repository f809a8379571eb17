"""Inference over structures, one module each, and the training problems made of them.

Every structure is given by the scores of its parts and by its domain, which says what structures
there are. All modules have the same verbs, on plain arrays. What a verb writes is its last
argument; sums are those of the potentials beta*scores, for 0 < beta < inf.

    log_partition(scores, *domain, beta)            log Z
    marginals(scores, *domain, beta, mu)            log Z; writes mu, shaped like the scores: the
                                                    expected number of times that a part occurs
    entropy(scores, *domain, beta)                  log Z - beta scores'mu
    argmax(scores, *domain, best)                   the largest score; writes a structure with it
    kbest(scores, *domain, k)                       (structures, scores) of the m <= k best
    sample(scores, *domain, beta, rng, drawn)       log Z; writes a random structure
    indicator(structure, ..., stats)                writes the parts of a structure

    module         scores                   domain                 a structure
    multiclass     (T*K,)                   K                      labels (T,)
    chain          (T*K + K*K,)             allowed, start, end    labels (T,)
    chain2         (T*K + K*K + K*K*K,)     allowed, start, end    labels (T,)
    candidates     (parts,)                 cuts                   places in the lists (T,)
    tree           (n+1, n+1)               single_root            heads (n,)
    projective     (n+1, n+1)               single_root            heads (n,)
    second_order   (parts,)                 Domain                 heads (n,)

Where there is no structure, log Z and the largest score are -inf and mu is 0. Second-order sums are
approximate, and come without `kbest` and `sample`; `indicator` is in structures/parts. The verbs
are compiled functions that allocate what they need; `tests/structures/conformance.py` holds all of
them to the same promises.
"""
