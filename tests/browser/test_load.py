"""A page that is open on an inbox which receives 200 messages a second answers keys at once, and does not grow; what it
leaves out it shows as a gap.
"""

import http.client
import json
import statistics
import threading
from time import perf_counter

from tests.browser.driver import Visitor
from tests.live.api import Api, github_headers
from tests.live.harness import Server

PER_SECOND = 200
SENDERS = 4
SECONDS = 4.0
KEYS = 25
ROUNDS = 4
"""Of which one must do: what slows the page down in the others is the machine, on which others work, too."""

LATENCY_MS = 100
"""From a key to the picture that shows it, as the browser itself measures it."""

GROWTH_BYTES = 4 * 1024 * 1024
"""What the page's memory may differ by between the second second and the last, after its garbage was collected. What
came in between would be 1.5 MiB as text, and many times that as elements."""

ROWS = 200
NODES = 10_000
"""Of the page and of everything that its scripts still hold: a row has about twenty."""

TOO_MANY = 450
"""More than twice as many as the list has rows, which is what the page lets wait at most."""

BODY = json.dumps({"ref": "refs/heads/main", "text": "x" * 700}).encode()

OBSERVE = """
    window.latencies = [];
    new PerformanceObserver((list) => {
        for (const one of list.getEntries()) if (one.name === "keydown") window.latencies.push(one.duration);
    }).observe({type: "event", durationThreshold: 16});
"""


class Traffic:
    """Webhooks at an even pace, from some threads with a connection each."""

    def __init__(self, server: Server, slug: str) -> None:
        self._server = server
        self._slug = slug
        self._ends = threading.Event()
        self._counts = [0] * SENDERS
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(SENDERS)]
        self._began = 0.0
        self.seconds = 0.0

    @property
    def sent(self) -> int:
        """How many were stored so far."""
        return sum(self._counts)

    def __enter__(self) -> "Traffic":
        self._began = perf_counter()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self.seconds = perf_counter() - self._began

    def _send(self, sender: int) -> None:
        connection = http.client.HTTPConnection(self._server.host, self._server.port, timeout=10)
        while not self._ends.wait(
            max(0.0, self._began + self._counts[sender] * SENDERS / PER_SECOND - perf_counter())
        ):
            headers = github_headers(BODY, "push", f"load-{sender}-{self._counts[sender]}")
            connection.request("POST", f"/in/{self._slug}", BODY, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            self._counts[sender] += 1
        connection.close()


def memory(visitor: Visitor) -> tuple[int, int]:
    """Return what the page holds after its garbage was collected: the bytes of its scripts, and nodes, also those that
    are not in the page any more.
    """
    session = visitor.context.new_cdp_session(visitor.page)
    session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    nodes: int = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    return used, nodes


def rows(visitor: Visitor) -> list[int]:
    """Return the numbers of the messages that are listed."""
    return visitor.page.eval_on_selector_all(
        "#messages > li .seq", "all => all.map(one => Number(one.textContent))"
    )


def latencies(visitor: Visitor) -> list[float]:
    """Press some keys; return how long each took to be seen, in ms. One that took under 16 is not told of: 0."""
    page = visitor.page
    page.evaluate("window.latencies.length = 0")
    page.focus("#f-types")
    for _ in range(KEYS):
        page.keyboard.press("x")
        page.wait_for_timeout(SECONDS * 1000 / KEYS)
    found: list[float] = page.evaluate("window.latencies")
    return [0.0] * (KEYS - len(found)) + found


def test_it_answers_keys_at_once_and_its_memory_is_bounded(admin: Visitor, api: Api, server: Server) -> None:
    slug = api.github_inbox()
    page = admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    page.evaluate(OBSERVE)
    rounds = []
    with Traffic(server, slug) as traffic:
        page.wait_for_function("() => document.querySelectorAll('#messages > li').length >= 150")
        before, _ = memory(admin)
        for _ in range(ROUNDS):
            sent, began = traffic.sent, perf_counter()
            took = statistics.quantiles(latencies(admin), n=20)[-1]
            rounds.append((took, (traffic.sent - sent) / (perf_counter() - began)))
            if took < LATENCY_MS and rounds[-1][1] > 0.8 * PER_SECOND:
                break
        after, nodes = memory(admin)
    at_full_pace = [took for took, rate in rounds if rate > 0.8 * PER_SECOND]
    assert at_full_pace, f"the machine was too busy to send {PER_SECOND} a second: {rounds}"
    assert min(at_full_pace) < LATENCY_MS, rounds
    assert after - before < GROWTH_BYTES
    assert nodes < NODES
    page.wait_for_function(
        "seq => document.querySelector('#messages .seq').textContent === seq", arg=str(traffic.sent)
    )
    shown = rows(admin)
    assert len(shown) == ROWS
    assert shown == list(range(traffic.sent, traffic.sent - ROWS, -1))
    page.click("#older a")
    admin.says("#state", "Older")
    assert rows(admin)[0] == shown[-1] - 1, "what was taken off the list is on the next page"


def test_what_is_too_much_to_list_is_shown_as_a_gap_that_leads_to_it(admin: Visitor, api: Api) -> None:
    slug = api.inbox()
    api.send(slug)
    page = admin.open(f"/ui/inboxes/{slug}")
    admin.says("#state", "Live")
    page.keyboard.press("p")
    for _ in range(TOO_MANY):
        api.send(slug)
    admin.says("#fresh", f"Show {TOO_MANY} new")
    assert rows(admin) == [1]
    page.click("#fresh")
    listed = rows(admin)
    assert listed == list(range(TOO_MANY + 1, TOO_MANY + 2 - ROWS, -1))
    left_out = TOO_MANY - len(listed)
    assert admin.text("#messages > li:last-child").startswith(f"{left_out} messages are left out here")
    assert page.eval_on_selector_all("#messages > li", "all => all.length") == ROWS
    page.click("#messages > li:last-child a")
    admin.says("#state", "Older")
    assert rows(admin)[0] == listed[-1] - 1
