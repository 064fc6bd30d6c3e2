"""Run python3 -m unittest in this folder, after make in ../c."""

import ast
import array
import copy
import ctypes
import os
import pickle
import shutil
import struct
import tempfile
import threading
import unittest

import mmapfilter

TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "testdata")


def vectors(name):
    """The keys of a file of vectors, with their hashes and answers."""
    with open(os.path.join(TESTDATA, name + ".vectors"), encoding="utf-8") as f:
        next(f)
        for line in f:
            columns = line.rstrip("\n").split("\t")
            key = ast.literal_eval("b" + "".join(c if ord(c) < 128 else "".join("\\x%02x" % b for b in c.encode()) for c in columns[0]))
            yield key, int(columns[1], 16), columns[6] == "true"


IMAGES = sorted(n[:-4] for n in os.listdir(TESTDATA) if n.endswith(".mmf"))


class TestMmapfilter(unittest.TestCase):
    def path(self, name):
        return os.path.join(TESTDATA, name + ".mmf")

    def test_vectors(self):
        self.assertGreater(len(IMAGES), 10)
        for name in IMAGES:
            keys, hashes, answers = zip(*vectors(name))
            with mmapfilter.open(self.path(name)) as f:
                self.assertEqual([f.hash(k) for k in keys], list(hashes))
                self.assertEqual([k in f for k in keys], list(answers), name)
                self.assertEqual(f.contains_many(keys), list(answers), name)
                for own in (array.array("Q", hashes), array.array("Q", hashes).tobytes(), (ctypes.c_uint64 * len(hashes))(*hashes)):
                    self.assertEqual(f.contains_hashes(own), list(answers), name)
                sixes = [k for k in keys if len(k) == 6]
                self.assertEqual(f.contains_fixed(b"".join(sixes), 6), [k in f for k in sixes])
                self.assertEqual(f.contains_fixed(bytearray().join(sixes), 6), [k in f for k in sixes])
                self.assertEqual(f.contains_fixed(memoryview(b"xx" + b"".join(sixes))[2:], 6), [k in f for k in sixes])
                self.assertEqual(f.status, mmapfilter.SERVED)
                self.assertEqual(f.normalisation, "golden" if name == "compact-q41" else f.normalisation)
                self.assertGreater(len(f), 0)
                self.assertEqual(f.shard is not None, name == "compact-shard")
                if f.shard:
                    number, count = f.shard
                    self.assertFalse(any(a for h, a in zip(hashes, answers) if h * count >> 64 != number))
                    self.assertTrue(any(answers))
                    others = [i * 0x9E3779B97F4A7C15 % 2**64 for i in range(20000)]
                    others = [h for h in others if h * count >> 64 != number]  # some look like keys of this shard
                    self.assertFalse(any(f.contains_hashes(array.array("Q", others))))

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NOT TESTED: numpy is not installed")
        with mmapfilter.open(self.path("compact-q41")) as f:
            keys = [k for k, _, _ in vectors("compact-q41") if len(k) == 7 and not k.endswith(b"\0")]
            self.assertGreater(len(keys), 100)
            a = f.contains_fixed(numpy.array(keys, dtype="S7"))
            self.assertEqual(a.dtype, bool)
            self.assertEqual(a.tolist(), [k in f for k in keys])
            self.assertEqual(f.contains_fixed(numpy.array(keys, dtype="S7")[::2]).tolist(), [k in f for k in keys[::2]])
            numbers = numpy.arange(1000, dtype=numpy.uint64)
            self.assertEqual(f.contains_fixed(numbers).tolist(), [struct.pack("<Q", i) in f for i in range(1000)])
            hashes = numpy.array([f.hash(k) for k in keys], dtype=numpy.uint64)
            self.assertEqual(f.contains_hashes(hashes).tolist(), a.tolist())
            self.assertEqual(f.contains_hashes(hashes[:0]).tolist(), [])
            for bad in (hashes.astype(">u8"), hashes.astype(float), hashes.astype(numpy.uint32), hashes.astype(numpy.int64)):
                self.assertRaises(TypeError, f.contains_hashes, bad)
            for bad in (numpy.array(["key 388"]), numpy.array([b"key 388"], dtype=object)):
                self.assertRaises(TypeError, f.contains_fixed, bad)

    def test_keys(self):
        with mmapfilter.open(self.path("compact-q41")) as f:
            self.assertTrue(b"" in f and "key 388" in f and bytearray(b"key 388") in f)
            self.assertEqual(f.contains_many([]), [])
            self.assertEqual(f.contains_fixed(b"", 8), [])
            self.assertEqual(f.contains_many(["key 388", b"key 388"]), [True, True])
            for bad in (lambda: 5 in f, lambda: f.contains_many([None]), lambda: f.contains_fixed(b"abc")):
                self.assertRaises(TypeError, bad)
            self.assertRaises(ValueError, f.contains_fixed, b"abc", 2)
            for bad in (array.array("d", [1]), array.array("I", [1, 2]), array.array("q", [1]), [1], memoryview(b"x" * 32)[::2]):
                self.assertRaises(TypeError, f.contains_hashes, bad)
            self.assertEqual(f.contains_hashes(array.array("Q")), [])
            self.assertTrue(memoryview(b"k.e.y. .3.8.8.")[::2] in f)
        self.assertRaises(ValueError, lambda: b"" in f)
        self.assertRaises(ValueError, len, f)
        f.close()

    def test_lifetime(self):
        f = mmapfilter.open(self.path("compact-q41"))
        for bad in (copy.copy, copy.deepcopy, pickle.dumps):  # two objects would close the same filter
            self.assertRaises(TypeError, bad, f)

        def keys():
            yield b"key 388"
            f.close()

        self.assertRaises(ValueError, f.contains_many, keys())
        f.close()
        f.close()
        with self.assertRaises(KeyError), mmapfilter.open(self.path("compact-q41")) as f:
            raise KeyError
        self.assertRaises(ValueError, f.contains_many, [])

    def test_errors(self):
        self.assertRaises(ValueError, mmapfilter.open, self.path("compact-q41") + "\0x")
        self.assertRaises(FileNotFoundError, mmapfilter.open, self.path("none"))
        self.assertRaises(mmapfilter.NotAFilter, mmapfilter.open, TESTDATA)
        self.assertRaises(mmapfilter.NotAFilter, mmapfilter.open, __file__)
        with open(self.path("compact-q41"), "rb") as f:
            image = f.read()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.mmf")

            def write(data):
                with open(path, "wb") as f:
                    f.write(data)
                return mmapfilter.open(path)

            write(image).close()
            self.assertRaises(mmapfilter.Corrupt, write, image[:10000])
            self.assertRaises(mmapfilter.Corrupt, write, image[:-4096])
            self.assertRaises(mmapfilter.Corrupt, write, b"MMAPFLTR" * 5120)
            newer = bytearray(image[:4092])
            newer[8] = 2
            newer += struct.pack("<I", crc32c(newer))
            with self.assertRaises(mmapfilter.Version) as raised:
                write(newer * 4 + image[16384:])
            self.assertEqual(raised.exception.code, -8)

    def test_unrecovered(self):
        for name in ("live/halves", "live/compact", "live/kept"):
            with mmapfilter.open(self.path(name)) as f:
                self.assertEqual(f.status, mmapfilter.UNRECOVERED)
                self.assertTrue(b"absent" in f and all(f.contains_many([b"%d" % i for i in range(1000)])))

    def test_replaced(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.mmf")
            shutil.copy(self.path("compact-q41"), path)
            with mmapfilter.open(path) as f:
                shutil.copy(self.path("compact-q41"), path + ".new")
                os.rename(path + ".new", path)
                self.assertEqual(f.status, mmapfilter.REPLACED)

    def test_superseded(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.mmf")
            shutil.copy(self.path("compact-q41"), path)
            with mmapfilter.open(path) as f:
                self.assertEqual((f.status, b"absent" in f), (mmapfilter.SERVED, False))
                with open(path, "r+b") as old:  # a build says so in the file that it replaces
                    old.seek(16384)
                    old.write(b"\xff" * 8)
                self.assertEqual(f.status, mmapfilter.SUPERSEDED)
                self.assertTrue(b"absent" in f and all(f.contains_many([b"%d" % i for i in range(1000)])))

    def test_threads(self):
        keys, _, answers = zip(*vectors("compact-q41"))
        with mmapfilter.open(self.path("compact-q41")) as f:
            got = []
            threads = [threading.Thread(target=lambda: got.append(f.contains_many(keys * 20))) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(got, [list(answers) * 20] * 4)


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc ^= b
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return ~crc & 0xFFFFFFFF


if __name__ == "__main__":
    unittest.main()
