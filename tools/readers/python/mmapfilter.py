"""Reads filter files of mmapfilter. The answer to "is this key in the set?" is
"certainly not" (False) or "maybe" (True).

    import mmapfilter
    with mmapfilter.open("seen.mmf") as f:
        b"apple" in f                       # True: maybe; False: certainly not
        f.contains_many([b"apple", "pear"]) # [True, False]

Keys are bytes, or text, which stands for its UTF-8. mmapfilter.h does the work, in a
shared object that one call builds (make in the folder of mmapfilter.h does the same):

    cc -O2 -fPIC -shared -DMMF_IMPLEMENTATION -x c mmapfilter.h -o libmmapfilter.so

open looks for libmmapfilter.so beside this file, then in ../c, then where the system looks for
libraries. To use another one, call load with its path first.

Several threads may use a filter at once; lookups release the interpreter's lock. Another process
may write to the file meanwhile. If someone cuts the file short while it is open, a lookup may end
the process (SIGBUS), so replace files by renaming, as mmapfilter does.
"""

import array
import ctypes
import os

__all__ = ["open", "load", "Filter", "Error", "NotAFilter", "Corrupt", "Version",
           "SERVED", "UNRECOVERED", "RECOVERING", "SUPERSEDED", "REPLACED"]

# What Filter.status returns.
SERVED, UNRECOVERED, RECOVERING, SUPERSEDED, REPLACED = range(5)


class Error(Exception):
    """An error of this module, with the code that mmapfilter.h gives it.

    An error of the system is an OSError, such as FileNotFoundError.
    """

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class NotAFilter(Error):
    """The file is not a filter file."""


class Corrupt(Error):
    """The file is damaged, or cut short."""


class Version(Error):
    """The file has a newer version of the format, or an unknown feature."""


_E_SYSTEM, _E_NOT_REGULAR, _E_NOT_FILTER, _E_VERSION, _E_FEATURE = -1, -3, -4, -8, -9
_library = None


def load(path=None):
    """Loads libmmapfilter.so from a path, or from where open looks for it."""
    global _library
    here = os.path.dirname(os.path.abspath(__file__))
    name = "libmmapfilter.so"
    near = [os.path.join(here, name), os.path.join(here, "..", "c", name)]
    if path is None:
        path = next((p for p in near if os.path.exists(p)), name)
    lib = ctypes.CDLL(path, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for function, result, arguments in [
        ("mmf_open", number, [ctypes.c_char_p, ctypes.POINTER(pointer)]),
        ("mmf_close", None, [pointer]),
        ("mmf_contains", number, [pointer, ctypes.c_char_p, size]),
        ("mmf_contains_hash", number, [pointer, ctypes.c_uint64]),
        ("mmf_contains_batch", number, [pointer, pointer, pointer, size, pointer]),
        ("mmf_contains_fixed", number, [pointer, pointer, size, size, pointer]),
        ("mmf_contains_hashes", number, [pointer, pointer, size, pointer]),
        ("mmf_hash", ctypes.c_uint64, [pointer, ctypes.c_char_p, size]),
        ("mmf_status", number, [pointer]),
        ("mmf_len", ctypes.c_uint64, [pointer]),
        ("mmf_capacity", ctypes.c_uint64, [pointer]),
        ("mmf_seed", ctypes.c_uint64, [pointer]),
        ("mmf_shards", ctypes.c_uint32, [pointer, ctypes.POINTER(ctypes.c_uint32)]),
        ("mmf_normalisation", ctypes.c_char_p, [pointer]),
        ("mmf_strerror", ctypes.c_char_p, [number]),
    ]:
        f = getattr(lib, function)
        f.restype, f.argtypes = result, arguments
    _library = lib
    return lib


def open(path):
    """Opens the filter at path. It reads 16 KiB, whatever the size of the file.

    If the writer of the file has died, open raises nothing, but every answer is True until
    Filter.status finds that a process has recovered the file.

    Raises NotAFilter, Corrupt, Version, or an OSError.
    """
    return Filter(path)


def _bytes(key):
    return key if type(key) is bytes else key.encode() if isinstance(key, str) else bytes(memoryview(key))


class Filter:
    """An open filter. Close it, or use it in a with statement."""

    _handle = None

    def __init__(self, path):
        lib = self._lib = _library or load()
        self._contains, handle = lib.mmf_contains, ctypes.c_void_p()
        name = os.fsencode(path)
        if b"\0" in name:
            raise ValueError("embedded null byte")
        code = lib.mmf_open(name, ctypes.byref(handle))
        if code == _E_SYSTEM:
            errno = ctypes.get_errno()
            raise OSError(errno, os.strerror(errno), os.fspath(path))
        if code < 0:
            kind = {_E_NOT_REGULAR: NotAFilter, _E_NOT_FILTER: NotAFilter, _E_VERSION: Version, _E_FEATURE: Version}.get(code, Corrupt)
            raise kind(code, "%s: %s" % (os.fspath(path), lib.mmf_strerror(code).decode()))
        self._handle = handle

    def close(self):
        """Closes the filter. No lookup may be in progress in another thread. Closing twice is harmless."""
        handle = self.__dict__.pop("_handle", None)  # in one step, since two threads may close
        if handle:
            self._lib.mmf_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def __reduce_ex__(self, _):
        raise TypeError("a filter cannot be copied or pickled; open the path again")

    def _open(self):
        if self._handle is None:
            raise ValueError("the filter is closed")
        return self._handle

    def __contains__(self, key):
        """Whether a key may be in the filter: False is certain."""
        key = _bytes(key)
        return self._contains(self._handle or self._open(), key, len(key)) != 0

    def contains_many(self, keys):
        """A list of answers, one for each key of a sequence. It is faster than single lookups."""
        keys = [_bytes(k) for k in keys]
        handle, n = self._open(), len(keys)  # not earlier, since iterating over keys may run other code
        pointers = (ctypes.c_char_p * n)(*keys)  # into the bytes, which the list keys keeps alive
        lens = array.array("Q", map(len, keys))
        found = ctypes.create_string_buffer(n)
        self._lib.mmf_contains_batch(handle, pointers, lens.buffer_info()[0], n, found)
        return [b != 0 for b in found.raw]

    def contains_fixed(self, keys, size=None):
        """Answers for keys of one size, which lie one after the other in a buffer.

        keys is bytes, or any contiguous buffer, with size bytes for each key. For a numpy array, size
        is by default the size of an item (dtype S16: a key has 16 bytes, and the zero bytes after a
        shorter text are part of it; uint64: the 8 bytes of a number, lowest first). Arrays of text
        (dtype U) are refused, because their items are not UTF-8.

        Returns a numpy array of bool for a numpy array, and a list otherwise.
        """
        keys, n, result = self._buffer(keys, size)
        size = keys.nbytes // n if n else 0
        found = (ctypes.c_uint8 * n)()
        address, keep = _address(keys)
        self._lib.mmf_contains_fixed(self._open(), address, size, n, found)
        del keep
        return result(found)

    def contains_hashes(self, hashes):
        """As contains_fixed, but for hashes of keys: a buffer of 8 bytes each, such as array("Q") or a
        numpy array of uint64. Other numbers are refused; bytes are taken as they are."""
        view = memoryview(hashes)
        form = view.format.lstrip("@=<")
        if form != "B" and (form not in ("Q", "L") or view.itemsize != 8):
            raise TypeError("hashes must be unsigned 64-bit numbers, lowest byte first, not %r" % view.format)
        hashes, n, result = self._buffer(hashes, 8)
        found = (ctypes.c_uint8 * n)()
        address, keep = _address(hashes)
        self._lib.mmf_contains_hashes(self._open(), address, n, found)
        del keep
        return result(found)

    @staticmethod
    def _buffer(keys, size):
        """Keys as a view of bytes, their number, and the function that returns the result."""
        result = lambda found: [b != 0 for b in found]
        if hasattr(keys, "__array_interface__"):
            import numpy
            if keys.dtype.kind in "UO":
                raise TypeError("keys must be bytes, not items of dtype %s" % keys.dtype)
            size = keys.dtype.itemsize if size is None else size
            keys = numpy.ascontiguousarray(keys).reshape(-1).view(numpy.uint8)
            result = lambda found: numpy.frombuffer(found, numpy.uint8).astype(bool)
        view = memoryview(keys).cast("B")
        if size is None:
            raise TypeError("size is needed, since the keys are not a numpy array")
        if size < 1 or len(view) % size:
            raise ValueError("%d bytes are not a whole number of keys of %d bytes" % (len(view), size))
        return view, len(view) // size, result

    def hash(self, key):
        """The hash of a key: XXH3, 64 bits, with the seed of the filter."""
        key = _bytes(key)
        return self._lib.mmf_hash(self._open(), key, len(key))

    def __len__(self):
        """The number of items; beside a writer, as of its last checkpoint."""
        return self._lib.mmf_len(self._open())

    def __bool__(self):
        return True  # even without items

    @property
    def status(self):
        """SERVED; UNRECOVERED: the writer died, and every answer is True; RECOVERING: the same, but a
        process is recovering the file; SUPERSEDED or REPLACED: another file has taken its place, so open
        the path again."""
        return self._lib.mmf_status(self._open())

    @property
    def capacity(self):
        """The number of items that the file was sized for."""
        return self._lib.mmf_capacity(self._open())

    @property
    def seed(self):
        return self._lib.mmf_seed(self._open())

    @property
    def shard(self):
        """(number, count) if the file is a shard of a set, otherwise None. A shard answers False for the
        keys of other shards. The shard that has a key is hash(key) * count >> 64."""
        number = ctypes.c_uint32()
        count = self._lib.mmf_shards(self._open(), ctypes.byref(number))
        return (number.value, count) if count else None

    @property
    def normalisation(self):
        """The note on how the keys were made."""
        return self._lib.mmf_normalisation(self._open()).decode("utf-8", "surrogateescape")


def _address(view):
    """The address of a buffer, and an object that keeps the buffer alive."""
    if not len(view):
        return None, view
    if not view.readonly:
        keep = (ctypes.c_uint8 * len(view)).from_buffer(view)
        return ctypes.addressof(keep), keep
    if isinstance(view.obj, bytes) and len(view.obj) == len(view):
        keep = ctypes.c_char_p(view.obj)
        return ctypes.cast(keep, ctypes.c_void_p), keep
    keep = ctypes.create_string_buffer(bytes(view), len(view))  # a read-only buffer has no address in ctypes
    return ctypes.addressof(keep), keep
