"""A proxy before a real S3 server that misbehaves on command.

usage: fault_proxy.py UPSTREAM_HOST:PORT [--tls CERT KEY]

Listens on a free port of 127.0.0.1 and prints it. It passes requests on unchanged, except for those
that a rule catches. Rules are set and read over the same port, and kept in order; the first that
matches is applied:

    POST /-/rules    a JSON list, which replaces all rules
    GET  /-/rules    the same list with how often each rule was applied ("hits")
    GET  /-/seen     the request lines that came so far, with the connection each came on

A rule: {"match": SUBSTRING OF "METHOD PATH", "times": N (default: no limit), "after": N (skip the
first N), and one of
    "answer": STATUS, "code": S3 ERROR CODE, "headers": {}    answer by itself
    "reset": "before" | "after"                               cut it before or after the server
    "truncate": BYTES                                         of the body, then close
    "stall": BYTES, "seconds": S                              of the body, then nothing for S
    "delay": SECONDS                                          before the server gets it
    "headers": {NAME: VALUE}                                  set in the server's answer
    "flip": OFFSET                                            one byte of the body is wrong}
"""

import json
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time


class Rules:
    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []
        self.seen = []

    def replace(self, rules):
        with self.lock:
            self.rules = [dict(rule, hits=0, passed=0) for rule in rules]
            self.seen = []

    def pick(self, line, connection):
        with self.lock:
            self.seen.append([line, connection])
            for rule in self.rules:
                if rule.get("match", "") not in line or rule["hits"] >= rule.get("times", 1 << 60):
                    continue
                if rule["passed"] < rule.get("after", 0):
                    rule["passed"] += 1
                    continue
                rule["hits"] += 1
                return rule
        return {}

    def dump(self, what):
        with self.lock:
            return json.dumps(getattr(self, what)).encode()


RULES = Rules()


class Message:
    """One request or answer: its first line, headers and body."""

    def __init__(self, line, headers, body):
        self.line, self.headers, self.body = line, headers, body

    def head(self):
        lines = [self.line] + [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def get(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)

    def set(self, name, value):
        self.headers = [pair for pair in self.headers if pair[0].lower() != name.lower()] + [
            (name, value)
        ]


def read_message(stream, method=None):
    """The next message, or None at the end. `method`: this is the answer to such a request."""
    line = stream.readline().decode("latin-1").rstrip("\r\n")
    if not line:
        return None
    headers = []
    while header := stream.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = header.partition(":")
        headers.append((name, value.strip()))
    message = Message(line, headers, b"")
    if method == "HEAD" or line.split()[1] in ("204", "304"):
        return message
    if (message.get("transfer-encoding") or "").lower() == "chunked":
        message.body = read_chunks(stream)
        message.headers = [
            pair for pair in message.headers if pair[0].lower() != "transfer-encoding"
        ]
        message.set("Content-Length", str(len(message.body)))
    else:
        message.body = stream.read(int(message.get("content-length") or 0))
    return message


def read_chunks(stream):
    body = b""
    while size := int(stream.readline().split(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body


def own_answer(status, body=b"", headers=()):
    message = Message(f"HTTP/1.1 {status} Made", list(headers), body)
    message.set("Content-Length", str(len(body)))
    message.set("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()))
    return message


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.upstream = None
        try:
            if self.server.tls:
                self.request = self.server.tls.wrap_socket(self.request, server_side=True)
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = self.request.makefile("rb")
            while (request := read_message(stream)) and self.serve(request):
                pass
        except (OSError, ssl.SSLError, ValueError):
            pass
        finally:
            if self.upstream:
                self.upstream[0].close()

    def serve(self, request):
        method, path = request.line.split()[:2]
        if path.startswith("/-/"):
            return self.control(method, path, request.body)
        rule = RULES.pick(f"{method} {path}", self.client_address[1])
        time.sleep(rule.get("delay", 0))
        if rule.get("reset") == "before":
            return self.cut()
        if "answer" in rule:
            code = rule.get("code", "")
            xml = f"<Error><Code>{code}</Code><Message>made up</Message></Error>"
            body = b"" if method == "HEAD" else xml.encode()
            answer = own_answer(rule["answer"], body, rule.get("headers", {}).items())
        else:
            answer = self.forward(request, method)
            for name, value in rule.get("headers", {}).items():
                answer.set(name, value)
        if rule.get("reset") == "after":
            return self.cut()
        return self.reply(answer, rule)

    def reply(self, answer, rule):
        body = bytearray(answer.body)
        if "flip" in rule:
            body[rule["flip"]] ^= 1
        self.request.sendall(answer.head())
        if "truncate" in rule:
            self.request.sendall(body[: rule["truncate"]])
            return False
        if "stall" in rule:
            self.request.sendall(body[: rule["stall"]])
            time.sleep(rule["seconds"])
            body = body[rule["stall"] :]
        self.request.sendall(body)
        return True

    def control(self, method, path, body):
        if method == "POST":
            RULES.replace(json.loads(body))
        answer = own_answer(200, RULES.dump(path.removeprefix("/-/")))
        self.request.sendall(answer.head() + answer.body)
        return True

    def forward(self, request, method):
        if self.upstream is None:
            connection = socket.create_connection(self.server.upstream)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.upstream = (connection, connection.makefile("rb"))
        connection, stream = self.upstream
        connection.sendall(request.head() + request.body)
        answer = read_message(stream, method)
        if answer is None:
            raise OSError("the server closed the connection")
        if (answer.get("connection") or "").lower() == "close":
            connection.close()
            self.upstream = None
        return answer

    def cut(self):
        """Ends the connection with a reset instead of an orderly close."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()
        return False


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 256
    tls = None

    def handle_error(self, request, client_address):
        print(f"fault_proxy: {sys.exc_info()[1]!r}", file=sys.stderr)


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    server = Server(("127.0.0.1", 0), Handler)
    server.upstream = (host, int(port))
    if len(sys.argv) > 2 and sys.argv[2] == "--tls":
        server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.tls.load_cert_chain(sys.argv[3], sys.argv[4])
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # Ends with whoever started it.


if __name__ == "__main__":
    main()
