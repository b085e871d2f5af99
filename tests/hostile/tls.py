"""TLS 1.3 with a swarm's key (transport/tls/tls.h) over a connected socket. Python's ssl has no external pre-shared keys before
version 3.13, and no exporters, so this calls OpenSSL. Only the dialer's side."""

import ctypes
import ctypes.util
import threading

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_ssl = ctypes.CDLL(ctypes.util.find_library("ssl") or "libssl.so.3")
_crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
_TLS13, _CTRL_MIN_VERSION, _CTRL_MAX_VERSION, _WANT_READ = 0x0304, 123, 124, 2
_CIPHER = b"\x13\x01"  # TLS_AES_128_GCM_SHA256
_LABEL = b"EXPORTER-starling identity"
_P, _INT, _SIZE, _LONG, _BYTES = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_long, ctypes.c_char_p
_PSK_CALLBACK = ctypes.CFUNCTYPE(_INT, _P, _P, ctypes.POINTER(_P), ctypes.POINTER(_SIZE), ctypes.POINTER(_P))


def _function(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


_method = _function(_ssl, "TLS_client_method", _P)
_new_context = _function(_ssl, "SSL_CTX_new", _P, _P)
_control = _function(_ssl, "SSL_CTX_ctrl", _LONG, _P, _INT, _LONG, _P)
_set_psk = _function(_ssl, "SSL_CTX_set_psk_use_session_callback", None, _P, _PSK_CALLBACK)
_set_ciphers = _function(_ssl, "SSL_CTX_set_ciphersuites", _INT, _P, _BYTES)
_new = _function(_ssl, "SSL_new", _P, _P)
_free = _function(_ssl, "SSL_free", None, _P)
_free_context = _function(_ssl, "SSL_CTX_free", None, _P)
_set_bio = _function(_ssl, "SSL_set_bio", None, _P, _P, _P)
_connect = _function(_ssl, "SSL_connect", _INT, _P)
_error = _function(_ssl, "SSL_get_error", _INT, _P, _INT)
_write = _function(_ssl, "SSL_write", _INT, _P, _BYTES, _INT)
_read = _function(_ssl, "SSL_read", _INT, _P, _P, _INT)
_export = _function(_ssl, "SSL_export_keying_material", _INT, _P, _P, _SIZE, _BYTES, _SIZE, _P, _SIZE, _INT)
_session_new = _function(_ssl, "SSL_SESSION_new", _P)
_session_key = _function(_ssl, "SSL_SESSION_set1_master_key", _INT, _P, _BYTES, _SIZE)
_session_cipher = _function(_ssl, "SSL_SESSION_set_cipher", _INT, _P, _P)
_session_version = _function(_ssl, "SSL_SESSION_set_protocol_version", _INT, _P, _INT)
_find_cipher = _function(_ssl, "SSL_CIPHER_find", _P, _P, _BYTES)
_new_bio = _function(_crypto, "BIO_new", _P, _P)
_memory = _function(_crypto, "BIO_s_mem", _P)
_bio_read = _function(_crypto, "BIO_read", _INT, _P, _P, _INT)
_bio_write = _function(_crypto, "BIO_write", _INT, _P, _BYTES, _INT)


class Key:
    """What connections derive from the 32 bytes of a swarm's key."""

    def __init__(self, secret, swarm):
        self.psk = self._derive(secret, b"tls 1.3 key", swarm, 32)
        self.identity = self._derive(secret, b"tls 1.3 identity", swarm, 16)

    @staticmethod
    def _derive(secret, what, swarm, size):
        return HKDF(algorithm=hashes.SHA256(), length=size, salt=b"starling swarm key 1", info=what + b"\0" + swarm.encode()).derive(secret)


class TlsSocket:
    """The dialer's end. Has the methods of a socket that client.Connection uses; one thread may send while another receives."""

    def __init__(self, plain, key):
        self._socket, self._key, self._lock = plain, key, threading.Lock()
        self._name = ctypes.create_string_buffer(key.identity, len(key.identity))
        self._callback = _PSK_CALLBACK(self._use_key)  # must live as long as the context
        self._context = _new_context(_method())
        for control in (_CTRL_MIN_VERSION, _CTRL_MAX_VERSION):
            _control(self._context, control, _TLS13, None)
        _set_ciphers(self._context, b"TLS_AES_128_GCM_SHA256")
        _set_psk(self._context, self._callback)
        self._ssl = _new(self._context)
        self._in, self._out = _new_bio(_memory()), _new_bio(_memory())
        _set_bio(self._ssl, self._in, self._out)  # which frees them
        self._buffer = ctypes.create_string_buffer(65536)
        try:
            self._until(lambda: _connect(self._ssl))
        except BaseException:
            self.close()
            raise

    def _use_key(self, ssl, _, identity, size, session):
        made = _session_new()
        _session_key(made, self._key.psk, len(self._key.psk))
        _session_cipher(made, _find_cipher(ssl, _CIPHER))
        _session_version(made, _TLS13)
        session[0], identity[0], size[0] = made, ctypes.addressof(self._name), len(self._key.identity)
        return 1

    def _flush(self):
        while (size := _bio_read(self._out, self._buffer, len(self._buffer))) > 0:
            self._socket.sendall(self._buffer.raw[:size])

    def _until(self, step):
        """Repeats `step` until OpenSSL needs no more bytes of the socket, and returns its result."""
        while True:
            with self._lock:
                if not self._ssl:
                    raise ConnectionError("closed")
                result = step()
                self._flush()
                if result > 0:
                    return result
                if _error(self._ssl, result) != _WANT_READ:
                    raise ConnectionError("TLS failed")
            arrived = self._socket.recv(65536)
            if not arrived:
                raise ConnectionError("closed")
            with self._lock:
                if not self._ssl:  # closed meanwhile, and its memory freed
                    raise ConnectionError("closed")
                _bio_write(self._in, arrived, len(arrived))

    def binding(self):
        _export(self._ssl, self._buffer, 32, _LABEL, len(_LABEL), None, 0, 0)
        return self._buffer.raw[:32]

    def settimeout(self, seconds):
        self._socket.settimeout(seconds)

    def sendall(self, data):
        for start in range(0, len(data), 16384):
            part = data[start:start + 16384]
            self._until(lambda part=part: _write(self._ssl, part, len(part)))

    def recv(self, most):
        into = ctypes.create_string_buffer(min(most, 65536))
        size = self._until(lambda: _read(self._ssl, into, len(into)))
        return into.raw[:size]

    def shutdown(self, how):
        self._socket.shutdown(how)

    def close(self):
        self._socket.close()
        with self._lock:
            if self._ssl:
                _free(self._ssl)
                _free_context(self._context)
            self._ssl = None
