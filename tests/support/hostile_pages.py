"""Pages that try to send, load, read and open what they must not, and a listener that counts what they reach."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

_TAGS = (
    '<img src="{to}">',
    '<img srcset="{to} 1x">',
    '<script src="{to}"></script>',
    '<script type=module src="{to}"></script>',
    '<link rel=stylesheet href="{to}">',
    '<style>@import "{to}";</style>',
    '<div style="background: url({to})">x</div>',
    "<style>@font-face {{ font-family: f; src: url({to}) }} p {{ font-family: f }}</style><p>x</p>",
    '<link rel=preload as=image href="{to}">',
    '<link rel=prefetch href="{to}">',
    '<link rel=modulepreload href="{to}">',
    '<link rel=icon href="{to}">',
    '<link rel=manifest href="{to}">',
    '<iframe src="{to}"></iframe>',
    "<iframe srcdoc=\"<img src='{to}'>\"></iframe>",
    "<iframe srcdoc=\"<script>location = '{to}'</script>\"></iframe>",
    '<object data="{to}"></object>',
    '<embed src="{to}">',
    '<video src="{to}" autoplay muted></video>',
    '<video poster="{to}"></video>',
    '<audio src="{to}" autoplay></audio>',
    '<svg><image href="{to}"/></svg>',
    '<svg><use href="{to}#a"/></svg>',
    '<meta http-equiv=refresh content="0;url={to}">',
    '<base href="{to}/"><img src="relative">',
    '<script type=speculationrules>{{"prefetch": [{{"urls": ["{to}"]}}]}}</script>',
    '<meta http-equiv=content-security-policy content="img-src *; connect-src *"><img src="{to}">',
)
_SCRIPTS = (
    "fetch('{to}', {{mode: 'no-cors'}})",
    "fetch('{to}', {{mode: 'no-cors', keepalive: true, method: 'POST', body: 'x'}})",
    "const r = new XMLHttpRequest(); r.open('GET', '{to}'); r.send()",
    "new WebSocket('{to}'.replace('http', 'ws'))",
    "new EventSource('{to}')",
    "navigator.sendBeacon('{to}', 'x')",
    "import('{to}')",
    "location = '{to}'",
    "location.replace('{to}')",
    "document.location.assign('{to}')",
    "open('{to}')",
    "open('{to}', '_self')",
    "open('{to}', '_top')",
    "open('{to}', '_parent')",
    "parent.location = '{to}'",
    "top.location = '{to}'",
    "top.frames[0].location = '{to}'",
    "const a = document.createElement('a'); a.href = '{to}'; document.body.append(a); a.click()",
    "const a = document.createElement('a'); a.href = '{to}'; a.target = '_blank'; document.body.append(a); a.click()",
    "const a = document.createElement('a'); a.href = '#'; a.ping = '{to}'; document.body.append(a); a.click()",
    "const a = document.createElement('a'); a.href = '{to}'; a.download = 'x'; document.body.append(a); a.click()",
    "const f = document.createElement('form'); f.action = '{to}'; document.body.append(f); f.submit()",
    "const f = document.body.appendChild(document.createElement('form')); f.action = '{to}'; f.requestSubmit()",
    "new Image().src = '{to}'",
    "document.body.innerHTML = '<img src=\"{to}\">'",
    "document.write('<img src=\"{to}\">')",
    "location = URL.createObjectURL(new Blob(['<img src=\"{to}\">'], {{type: 'text/html'}}))",
    "location = 'data:text/html,<img src=\"{to}\">'",
    "location = 'javascript:\"<img src={to}>\"'",
    "const i = document.createElement('iframe'); document.body.append(i); i.contentWindow.location = '{to}'",
    "const i = document.createElement('iframe'); i.src = 'data:text/html,<img src=\"{to}\">'; document.body.append(i)",
    "new Worker(URL.createObjectURL(new Blob([`fetch('{to}', {{mode: 'no-cors'}})`])))",
    "new SharedWorker('data:text/javascript,fetch(\"{to}\")')",
    "navigator.serviceWorker.register('{to}')",
    "eval(\"fetch('{to}', {{mode: 'no-cors'}})\")",
    "setTimeout(\"fetch('{to}', {{mode: 'no-cors'}})\")",
    "fetchLater('{to}', {{activateAfter: 0}})",
    "new WebTransport('{to}'.replace('http', 'https'))",
    "new FontFace('f', 'url({to})').load()",
    "document.adoptedStyleSheets[0]; CSS.paintWorklet.addModule('{to}')",
    "const l = document.createElement('link'); l.rel = 'preconnect'; l.href = '{to}'; document.head.append(l)",
    "for (const each of document.querySelectorAll('meta')) each.remove(); new Image().src = '{to}'",
    (
        "parent.postMessage({{jsonrpc: '2.0', method: 'ui/notifications/sandbox-resource-ready', "
        "params: {{html: '<img src={to}>'}}}}, '*')"
    ),
    "parent.document.write('<img src=\"{to}\">')",
    "top.document.body.innerHTML = '<img src=\"{to}\">'",
    "parent.eval(\"new Image().src = '{to}'\")",
)
_RTC = (
    "const r = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{host}'}}]}}); r.createDataChannel('x'); "
    "r.createOffer().then((o) => r.setLocalDescription(o))"
)
"""Sends packets, which no policy forbids."""
_FRAMED = f"<iframe srcdoc='<script>{_RTC.replace(chr(39), chr(96))}</script>'></iframe>"
_ATTEMPTS = (
    "document.body.innerHTML = {framed}",
    "document.write({framed})",
    "document.body.attachShadow({{mode: 'closed'}}).innerHTML = {framed}",
    "document.body.setHTMLUnsafe('<p><template shadowrootmode=open>' + {framed} + '</template>')",
    (
        "const d = document.createElement('div'), s = d.attachShadow({{mode: 'open', clonable: true}}); "
        "s.innerHTML = {framed}; document.body.append(d.cloneNode(true))"
    ),
    (
        "Element.prototype.remove = MutationObserver.prototype.observe = Reflect.apply = () => {{}}; "
        "Document.prototype.querySelectorAll = () => []; document.body.innerHTML = {framed}"
    ),
)
_PACKETS = (
    f"<body><script>{_RTC}</script>",
    f"<script>{_RTC.replace('RTCPeer', 'webkitRTCPeer')}</script>",
    _FRAMED,
    f"<div><template shadowrootmode=closed>{_FRAMED}</template></div>",
    *(f"<body><script>{each}</script>" for each in _ATTEMPTS),
)
SENDING = (*_TAGS, *(f"<body><script>{each}</script>" for each in _SCRIPTS), *_PACKETS)
"""Pages that send or load something, with the address for `{to}`, or the host and port for `{host}`."""

READING = (
    "top.document.body.innerText",
    "parent.document.body.innerText",
    "top.SECRET",
    "parent.parent.SECRET",
    "top.location.href",
    "parent.location.href",
    "document.cookie",
    "localStorage.getItem('secret')",
    "sessionStorage.getItem('secret')",
    "indexedDB.open('x').readyState",
    "frameElement.outerHTML",
    "top.frames[0].document.body.innerText",
    "opener.document",
    "top.localStorage.getItem('secret')",
    "navigator.serviceWorker.controller.scriptURL",
)
"""Expressions that read what is around a page; none may have a value but the empty text."""

ASKING = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "sampling/createMessage",
    "elicitation/create",
    "initialize",
    "completion/complete",
    "logging/setLevel",
    "ui/update-model-context",
    "ui/download-file",
    "__proto__",
    "constructor",
    "toString",
    "",
)
"""Methods that no page may ask."""

OPENING = (
    "javascript:top.STOLEN = 1",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "blob:null/1",
    "vbscript:x",
    "about:blank",
    "chrome://settings",
    "//example.org",
    "",
)
"""Addresses that are not offered to a person."""


class Listener:
    """Counts what arrives at one port, over TCP and UDP."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        """The first line of each request, or what else came first."""
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._tcp.getsockname()[1]
        """The port."""
        self._udp = socket.socket(type=socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))

    def accept(self) -> None:
        """Note connections until the listener is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._tcp.accept()
                with connection, suppress(OSError):
                    connection.settimeout(2)
                    line = connection.recv(200).partition(b"\r\n")[0].decode("latin-1")
                    self.heard.append(line or "a connection")
                    connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    def receive(self) -> None:
        """Note packets until the listener is closed."""
        with suppress(OSError):
            while self._udp.recv(2000):
                self.heard.append("UDP")

    def close(self) -> None:
        """Stop listening."""
        for each in (self._tcp, self._udp):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def listening() -> Generator[Listener]:
    """Listen while the block lasts."""
    listener = Listener()
    threads = [threading.Thread(target=each, daemon=True) for each in (listener.accept, listener.receive)]
    for each in threads:
        each.start()
    try:
        yield listener
    finally:
        listener.close()


def sending(number: int, port: int) -> str:
    """Return a page that tries to reach a port."""
    host = f"127.0.0.1:{port}"
    framed = json.dumps(_FRAMED.format(host=host)).replace("</", "<\\/")
    return SENDING[number].format(to=f"http://{host}/{number}", host=host, framed=framed)
