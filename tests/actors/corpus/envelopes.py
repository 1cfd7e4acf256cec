"""What two providers send around every event: the shapes are theirs, the values ours."""

from collections.abc import Mapping
from typing import Any

LINKS = """
archive assignees blobs branches collaborators comments commits compare contents contributors deployments downloads
events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels languages merges
milestones notifications pulls releases stargazers statuses subscribers subscription tags teams trees
"""
OF_SENDER = "followers following gists starred subscriptions organizations repos events received_events"

EMPTY = {
    "charge": {"application": None, "balance_transaction": None, "description": None, "fraud_details": {},
               "on_behalf_of": None, "receipt_email": None, "review": None, "shipping": None, "transfer": None},
    "payment_intent": {"canceled_at": None, "cancellation_reason": None, "next_action": None, "review": None,
                       "on_behalf_of": None, "receipt_email": None, "shipping": None, "setup_future_usage": None},
    "invoice": {"default_source": None, "discount": None, "ending_balance": 0, "last_finalization_error": None,
                "on_behalf_of": None, "quote": None, "test_clock": None, "footer": None},
    "subscription": {"cancel_at": None, "ended_at": None, "pause_collection": None, "pending_update": None,
                     "schedule": None, "trial_end": None, "latest_invoice": "in_1Q"},
}  # fmt: skip
"""Members that are there also when they say nothing."""


def enclose(via: str, event_type: str, repo: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body as its provider sends it; `via` "" means that it is whole."""
    if via == "github":
        return {**body, "repository": _repository(repo), "sender": _sender()}
    if via == "stripe":
        return {
            "id": "evt_1Qx7",
            "object": "event",
            "api_version": "2024-06-20",
            "created": 1740810552,
            "data": {"object": {**EMPTY.get(body["object"], {}), **body, "livemode": True, "metadata": {}}},
            "livemode": True,
            "pending_webhooks": 1,
            "request": {"id": None, "idempotency_key": None},
            "type": event_type,
        }
    return dict(body)


def _repository(repo: str) -> dict[str, Any]:
    api = f"https://api.github.com/repos/shop/{repo}"
    return {
        "id": 186853002,
        "node_id": "MDEwOlJlcG9zaXRvcnkxODY4NTMwMDI=",
        "name": repo,
        "full_name": f"shop/{repo}",
        "private": True,
        "owner": {**_sender(), "login": "shop", "type": "Organization"},
        "html_url": f"https://github.com/shop/{repo}",
        "description": None,
        "fork": False,
        "url": api,
        **{f"{link}_url": f"{api}/{link.replace('_', '/')}{{/sha}}" for link in LINKS.split()},
        "git_url": f"git://github.com/shop/{repo}.git",
        "ssh_url": f"git@github.com:shop/{repo}.git",
        "clone_url": f"https://github.com/shop/{repo}.git",
        "homepage": None,
        "size": 41233,
        "stargazers_count": 0,
        "language": "TypeScript",
        "has_issues": True,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": True,
        "has_pages": False,
        "archived": False,
        "disabled": False,
        "open_issues_count": 12,
        "license": None,
        "visibility": "private",
        "default_branch": "main",
    }


def _sender() -> dict[str, Any]:
    api = "https://api.github.com/users/shop-robot"
    return {
        "login": "shop-robot",
        "id": 21031067,
        "node_id": "MDQ6VXNlcjIxMDMxMDY3",
        "avatar_url": "https://avatars.githubusercontent.com/u/21031067?v=4",
        "gravatar_id": "",
        "url": api,
        "html_url": "https://github.com/shop-robot",
        **{f"{link}_url": f"{api}/{link}" for link in OF_SENDER.split()},
        "type": "User",
        "site_admin": False,
    }
