"""One module per view of the page; each function turns a request into a response."""
