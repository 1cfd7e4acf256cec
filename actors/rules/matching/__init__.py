"""Who should hear of a message: beacons against messages, exactly, by the words that both hold. Pure.

`words` makes terms of text, `texts` decides which text of a message is read, `beacons` says what a beacon means,
`weights` what a term is worth, `scoring` what a match is worth, `index` finds the matches, `common` judges beacons
that would hear of nearly everything.
"""
