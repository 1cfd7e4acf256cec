"""The page of a server that was just started: its templates and files are where the program looks for them."""

import re

from tests.live.api import Api


def test_the_page_comes_with_every_file_that_it_refers_to(api: Api) -> None:
    page = api._http.get("/ui/sign-in")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    files = re.findall(r'(?:src|href)="(/ui/[^"]+\.(?:js|css|svg))"', page.text)
    assert len(files) > 1
    for file in files:
        served = api._http.get(file)
        assert (served.status_code, bool(served.content)) == (200, True), file
