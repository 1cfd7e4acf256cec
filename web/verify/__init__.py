"""Who wrote this message, as far as its inbox's verifier can tell: signatures on raw bytes, and credentials.

`compile_verifier` (`registry`) turns an inbox's settings and secrets into a `Verifier`; `Verifier.begin` looks at the
head of one request and returns a `Check` that is fed the body as it arrives and gives a `Judgement` at the end. Nothing
is decoded or decompressed before it is verified, but for proofs that are in the body itself (a form's fields, Microsoft
Graph's client state); nothing compares with `==`.

Providers are values (`presets`), of the generic template (`template`, tried by `signatures` with `keys` and
`publickeys`), of a form's signature (`urlforms`), or of a credential (`credentials`). Each kind has a `Scheme`
(`schemes`), which also signs (`signing`) and makes samples (`samples`).
"""
