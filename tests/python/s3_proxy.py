"""A proxy in front of a real S3 that counts requests, and makes trouble when it is told to."""

import contextlib
import socket
import socketserver
import threading
import urllib.parse

SLOW_DOWN = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: 87\r\n"
    b"Connection: close\r\n\r\n"
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


class Proxy:
    """`trouble(method, path)` says what becomes of a request.

    None, "slow down", "break" (no answer) or "cut" (half of one).
    """

    def __init__(self, endpoint):
        self.upstream = urllib.parse.urlsplit(endpoint)
        self.requests = []  # (method, path)
        self.trouble = lambda method, path: None
        self.lock = threading.Lock()
        self.open = set()
        self.server = None
        self.port = 0
        self.up()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def count(self, *methods):
        with self.lock:
            return sum(method in methods for method, _ in self.requests)

    def up(self):
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                proxy._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self):
        """As a server that was killed: nobody listens, connections are gone."""
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _serve(self, client):
        with self.lock:
            self.open.add(client)
        try:
            with contextlib.suppress(OSError):
                self._exchange(client)
        finally:
            with self.lock:
                self.open.discard(client)

    def _exchange(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            got = client.recv(65536)
            if not got:
                return
            head += got
        line, rest = head.split(b"\r\n", 1)
        method, path = line.decode().split(" ")[:2]
        with self.lock:
            self.requests.append((method, path))
            what = self.trouble(method, path)
        if what == "slow down":
            client.sendall(SLOW_DOWN)
            return
        if what == "break":
            return
        answer = self._ask(line + b"\r\nConnection: close\r\n" + rest)
        client.sendall(answer if what is None else answer[: len(answer) // 2])

    def _ask(self, request):
        answer = b""
        with socket.create_connection((self.upstream.hostname, self.upstream.port)) as server:
            server.sendall(request)
            while got := server.recv(1 << 20):
                answer += got
        return answer
