"""Requests of HTTP that two programs may understand differently."""

_START = b"POST /a HTTP/1.1\r\n"
_HEAD = _START + b"Host: h\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
_TOKEN = b"Authorization: Bearer a\r\n"
REFUSED = {
    "a trailer that says who asks": (_CHUNKED + _TOKEN + b"\r\n", "Authorization comes after the body of the request"),
    "a trailer that says the host": (_CHUNKED + b"Host: h\r\n\r\n", "Host comes after the body"),
    "a trailer that says the length": (_CHUNKED + b"Content-Length: 3\r\n\r\n", "Content-Length can't be present"),
    "a trailer that says the coding": (_CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n", "`Transfer-Encoding`"),
    "two who ask": (_HEAD + _TOKEN * 2 + b"\r\n", "the request has 2 Authorization headers, expected one"),
    "two hosts": (_HEAD + b"Host: h\r\n\r\n", "the request has 2 Host headers, expected one"),
    "no host": (_START + b"\r\n", "the request has no Host header"),
    "a host that is none": (_START + b"Host: h, i\r\n\r\n", "the Host header is 'h, i'"),
    "another host in the target": (b"GET http://i/a HTTP/1.1\r\nHost: h\r\n\r\n", "expected one of host 'h'"),
    "a fragment in the target": (b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", "expected one without a fragment"),
    "HTTP/0.9": (b"GET /a\r\n\r\n", "the request is of HTTP/0.9, expected HTTP/1.1 or HTTP/1.0"),
    "HTTP/0.9 with its number": (b"GET /a HTTP/0.9\r\nHost: h\r\n\r\n", "the request is of HTTP/0.9"),
    "HTTP/2": (b"GET /a HTTP/2.0\r\nHost: h\r\n\r\n", "the request is of HTTP/2.0"),
    "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "malformed"),
    "a length and chunks": (_HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "can't be present"),
    "chunks and a length": (_HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", "can't be present"),
    "two lengths": (_HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "Duplicate Content-Length"),
    "a length twice": (_HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", "Duplicate Content-Length"),
    "a list of lengths": (_HEAD + b"Content-Length: 1, 1\r\n\r\n", "Invalid character in Content-Length"),
    "a length with a sign": (_HEAD + b"Content-Length: +1\r\n\r\n", "Invalid character in Content-Length"),
    "chunks in HTTP/1.0": (b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "has a Transfer-Encoding"),
    "another coding last": (_HEAD + b"Transfer-Encoding: gzip\r\n\r\n", "'gzip', expected 'chunked'"),
    "another coding first": (_HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "'gzip, chunked'"),
    "a folded header": (_HEAD + b"A: b\r\n c\r\n\r\n", "Unexpected whitespace after header value"),
    "a space before the colon": (_HEAD + b"A : b\r\n\r\n", "Invalid header token"),
    "a line without CR": (_HEAD + b"A: b\n\r\n", "Missing expected CR"),
    "a line without LF": (_HEAD + b"A: b\rC: d\r\n\r\n", "Missing expected LF"),
    "a zero byte in a value": (_HEAD + b"A: \0\r\n\r\n", "Invalid header value char"),
    "a control byte in the method": (b"GE\x01T /a HTTP/1.1\r\n", "Invalid method"),
    "a control byte in the target": (b"GET /\x01 HTTP/1.1\r\n", "Invalid char in url path"),
    "a target that is no path": (b"GET a HTTP/1.1\r\nHost: h\r\n\r\n", "Invalid characters in url"),
    "a byte beyond a chunk": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "Expected LF after chunk data"),
}
"""What is refused, and a part of why."""
