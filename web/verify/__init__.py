"""Signatures on raw bytes: who wrote this message, as far as its inbox's verifier can tell.

`compile_verifier` turns an inbox's settings and secrets into a `Verifier`; `Verifier.begin` looks at the head of
one request and returns a `Check` that is fed the body as it arrives and gives a `Judgement` at the end. Nothing
here parses, decodes or decompresses a body before it is verified, and nothing compares with `==`.
"""
