"""Questions before something is gone for good: asked once, by a script where there are scripts, else by a page between.

Either way the form comes with the field `SURE` when the answer was yes; without it nothing is done. Pure.
"""

import msgspec

SURE = "sure"


class Question(msgspec.Struct, frozen=True):
    """What is asked, with `{}` for names, and what the button is called that says yes."""

    words: str
    button: str

    def about(self, *names: object) -> str:
        """Return the question about something of these names."""
        return self.words.format(*names)


QUESTIONS = {
    "purge": Question("Drop all messages of {}?", "Drop all messages"),
    "erase": Question(
        "Erase message {} of {}? Its content goes, also from the inboxes that it was delivered to.",
        "Erase it",
    ),
    "retire": Question(
        "Retire the secret {} of {}? What is signed with it is no longer verified.", "Retire the secret"
    ),
    "revoke": Question("Revoke the token {}? Whoever uses it is refused from now on.", "Revoke the token"),
    "delete_agent": Question("Delete the agent {}, with its inbox, beacons and tokens?", "Delete the agent"),
    "delete_machine": Question(
        "Delete the machine {}, its agents, and all their tokens?", "Delete the machine"
    ),
    "remove_beacon": Question("Remove the beacon {}?", "Remove the beacon"),
}
"""By what is done. Deleting an inbox asks by its own form: its slug is written into it."""


def question(what: str, *names: object) -> str:
    """Return a question for a form of the page, which its script asks."""
    return QUESTIONS[what].about(*names)
