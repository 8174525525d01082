"""A real HTTP server on this machine, and programs that serve: what a centre has of its own."""

import json
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

#: Begins a stand-in for sendmail, which refuses any other command line; -i: a dot ends no mail.
ONE_ADDRESS = '[ $# = 2 ] && [ "$1" = -i ] && [ "${2#-}" = "$2" ] || exit 64'


@dataclass
class Server:
    """One that takes what is posted to it."""

    port: int
    got: list = field(default_factory=list)  # JSON documents, in the order in which they came
    headers: list = field(default_factory=list)
    status: int = 200  # that it answers with
    location: str = ""  # that it sends to, of a redirect
    answers: threading.Event = field(default_factory=threading.Event)  # else it hangs

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/services/secret"


@contextmanager
def posts():
    """A server for what is posted."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            kind = self.headers["Content-Type"]
            if self.path != "/services/secret" or kind != "application/json":
                self.send_error(400)
                return
            server.got.append(json.loads(text))
            server.headers.append(dict(self.headers))
            server.answers.wait(60)
            self._answer(server.status)

        def do_GET(self):
            self._answer(200)

        def _answer(self, status):
            self.send_response(status)
            if server.location:
                self.send_header("Location", server.location)
            self.end_headers()

        def log_message(self, *said):
            pass

    with _serving(Handler) as port:
        server = Server(port)
        server.answers.set()
        yield server
        server.answers.set()


@contextmanager
def files(folder):
    """A server of the files in a folder: its port."""

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {".prom": "text/plain; version=0.0.4"}  # noqa: RUF012

        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_message(self, *said):
            pass

    with _serving(Handler) as port:
        yield port


@contextmanager
def _serving(handler):
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield httpd.server_address[1]
    finally:
        httpd.shutdown()
        httpd.server_close()


def free_port():
    """One that nobody has now; who is told to take it may still be too late."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def get(url, seconds=30):
    """What is at a URL, once a server that has just been started answers."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while True:
        try:
            with direct.open(url, timeout=seconds) as answer:
                return answer.read().decode()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
