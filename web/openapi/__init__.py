"""The OpenAPI 3.1 document of the REST API, at `/openapi.json`: made of the routes and definitions that answer.

A route is in the document when its line in a table says what it is `About`: who may call it, what it takes and what it
answers, as the msgspec definitions that decode and encode that. Everything else follows: path and query parameters,
bodies, schemas, the refusals that such a route has, the words of its handler's docstring, its examples. So a new route
needs one line, where it is; a test finds one without.

    about       what that line says
    operations  routes as operations: names, and docstrings as sentences for the caller
    shapes      answers that are spliced from stored bytes, or that the tools of MCP describe more loosely
    schemas     components from msgspec definitions
    parameters  path, query, headers, bodies
    errors      which codes a route refuses with
    page        what `docs/api.md` says: examples, when which error comes, what parameters mean (`page.json`)
    examples    further examples, of what that page does not show whole
    beside      the operations that are in no table of routes
    answers     successes and refusals by status
    document    all of it as one document, and the route that serves it
"""
