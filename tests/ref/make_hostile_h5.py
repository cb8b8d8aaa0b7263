#!/usr/bin/env python3
"""Writes tests/ref/hostile/*.h5: small HDF5 files that test_h5.c must read, or refuse by name.

Run it in the repository's root; needs h5py and numpy. The files are in the repository, the tests need
no Python. good_*.h5 are what h5py writes by default and with the newer format; every other file is
one thing wrong.
"""
import pathlib
import struct

import h5py
import numpy as np

OUT = pathlib.Path("tests/ref/hostile")
EARLIEST, V110 = ("earliest", "v110"), ("v110", "v110")
VALUES = np.arange(6, dtype="<f4").reshape(2, 3)


def create(name, libver=EARLIEST, **options):
    return h5py.File(OUT / (name + ".h5"), "w", libver=libver, **options)


def patch(name, *pairs):
    """Replaces bytes, each pattern exactly once."""
    path = OUT / (name + ".h5")
    data = path.read_bytes()
    for old, new in pairs:
        assert len(old) == len(new) and data.count(old) == 1, (name, old, data.count(old))
        data = data.replace(old, new)
    path.write_bytes(data)


def good(name, libver, **options):
    with create(name, libver, **options) as f:
        f.attrs["text"] = "a café"
        f.attrs["bytes"] = np.bytes_("fixed")
        f.attrs["empty"] = ""
        f.attrs["lines"] = "one\n\ttwo"
        f.attrs["int"] = 7
        f.attrs["big_endian_int"] = np.array(-7, ">i2")
        f.attrs["unsigned"] = np.uint8(200)
        f.attrs["pair"] = [224, 160]
        f.attrs["one"] = np.array([5], "<i4")
        f.attrs["real"] = 0.5
        f.attrs["real32"] = np.float32(0.25)
        f.attrs["triple"] = [0.5, 0.25, 0.125]
        g = f.create_group("p")
        for kind in ("<f8", "<f4", "<f2", ">f8", ">f4", ">f2"):
            g["float_" + kind.replace("<", "le_").replace(">", "be_")] = VALUES.astype(kind)
        bf16 = (VALUES.view("<u4") >> 16).astype("<u2")
        g["bf16"] = bf16
        g["bf16"].attrs["dtype"] = "bfloat16"
        g["bf16_bytes"] = bf16
        g["bf16_bytes"].attrs["dtype"] = np.bytes_("bfloat16")
        g["uint16"] = bf16
        g["uint16_said"] = bf16
        g["uint16_said"].attrs["dtype"] = "uint16"
        g["bool"] = np.array([True, False, True])
        g["int64_be"] = np.array([1, -2], ">i8")
        g["scalar"] = np.float32(3)
        g["nothing"] = np.zeros((0, 4), "<f4")
        g.create_dataset("gzip", data=VALUES, chunks=(1, 3), compression="gzip", shuffle=True)
        g.create_dataset("chunked", data=VALUES, chunks=(2, 2), maxshape=(None, 3))
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(g.id, b"compact", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((2, 3)),
                        compact).write(h5py.h5s.ALL, h5py.h5s.ALL, VALUES)
        words = ["cat", "", "a naïve dog", "crane", "crane"]
        g.create_dataset("strings", data=words, dtype=h5py.string_dtype())
        g.create_dataset("strings_fixed", data=np.array([w.encode() for w in words], "S16"))
        g.create_dataset("strings_gzip", data=words, dtype=h5py.string_dtype(), chunks=(5,),
                         compression="gzip")
        f.create_group("p/inner")


def links():
    with create("other") as f:
        f["w"] = VALUES
        f["config/x"] = 1
    with create("links") as f:
        f["w"] = VALUES
        f["external"] = h5py.ExternalLink("tests/ref/hostile/other.h5", "/w")
        f["group"] = h5py.ExternalLink("tests/ref/hostile/other.h5", "/config")
        f["soft"] = h5py.SoftLink("/w")
        f["loop"] = h5py.SoftLink("/loop")
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["out"] = h5py.SoftLink("/external")
        f["file"] = h5py.ExternalLink("/etc/passwd", "/")
        g = f.create_group("g")
        g["ok"] = VALUES
        g["e"] = h5py.ExternalLink("tests/ref/hostile/other.h5", "/w")


def storage():
    with create("virtual", V110) as f:
        layout = h5py.VirtualLayout((2, 3), "<f4")
        layout[...] = h5py.VirtualSource("tests/ref/hostile/other.h5", "w", (2, 3))
        f.create_virtual_dataset("w", layout)
    (OUT / "external.bin").write_bytes(VALUES.tobytes())
    with create("external_data") as f:
        f.create_dataset("w", (2, 3), "<f4", external=[("tests/ref/hostile/external.bin", 0, 24)])
        f.create_dataset("passwd", (24,), "u1", external=[("/etc/passwd", 0, 24)])
    for name, options in (("lzf", {"compression": "lzf"}), ("fletcher32", {"fletcher32": True}),
                          ("scaleoffset", {"scaleoffset": 2})):
        with create("filter_" + name) as f:
            f.create_dataset("w", data=VALUES, chunks=(2, 3), **options)
    with create("shapes") as f:
        f["rank9"] = np.zeros((1,) * 9, "<f4")
        f["null"] = h5py.Empty("<f4")
        f["compound"] = np.zeros(2, [("a", "<f4"), ("b", "<i4")])
        f["reference"] = np.array([f["rank9"].ref], h5py.ref_dtype)
        f["list"] = np.zeros(2, "<f4")
        f.create_dataset("vlen", (1,), h5py.vlen_dtype("<i4"))
        f.create_dataset("texts", (1,), [("text", h5py.string_dtype()), ("number", "<i4")])
        f.create_dataset("not_written", (1000, 1000), "<f4")
        f.create_dataset("sparse", (1 << 20, 1 << 10), "<f4", chunks=(1, 1 << 10),
                         compression="gzip")[0] = 1
        f.create_dataset("chunk", (6,), "<f4", chunks=(1 << 28,), maxshape=(None,),
                         compression="gzip").id.write_direct_chunk((0,), bytes(24))
        odd = h5py.h5t.IEEE_F32LE.copy()
        odd.set_ebias(100)
        h5py.h5d.create(f.id, b"odd_float", odd, h5py.h5s.create_simple((3,))).write(
            h5py.h5s.ALL, h5py.h5s.ALL, np.ones(3, "<f4"))
    # Contiguous data whose shape (and largest shape) claims more than is stored.
    for name, dims in (("grown", (0x200, 0x300)), ("overflow", (1 << 40, 1 << 40))):
        for chunked in (False, True):
            file = name + "_chunked" * chunked
            with create(file) as f:
                f.create_dataset("w", data=VALUES, maxshape=(2, 3) if chunked else None)
            patch(file, (struct.pack("<2Q", 2, 3) * 2, struct.pack("<2Q", *dims) * 2))


def names():
    with create("long_name") as f:
        f["g/" + "n" * 513] = VALUES
    with create("control_name") as f:
        f["g/\x1b[2J"] = VALUES
    with create("bad_utf8_name") as f:
        h5py.h5d.create(f.create_group("g").id, b"\xff\xfe", h5py.h5t.IEEE_F32LE,
                        h5py.h5s.create_simple((1,)))


def attributes():
    with create("attributes", V110) as f:
        f.attrs["nan"] = float("nan")
        f.attrs["inf"] = float("inf")
        f.attrs["huge"] = np.uint64(2**64 - 1)
        f.attrs["word"] = "seven"
        f.attrs["real"] = 7.5
        f.attrs["triple"] = [1, 2, 3]
        f.attrs["matrix"] = np.ones((1, 2), "<i4")
        f.attrs["nothing"] = h5py.Empty("<i4")
        f.attrs["compound"] = np.zeros((), [("a", "<i4")])
        f.attrs["words"] = ["a", "b"]
        f.attrs["escape"] = "\x1b[2J"
        f.attrs["c1"] = "a\x9bb"
        f.attrs["nul"] = np.void(b"a\0b")
        f.attrs["fixed_nul"] = np.bytes_(b"a\0b")
        f.attrs["latin1"] = np.bytes_("caf\xe9".encode("latin-1"))
        f.attrs["surrogate"] = np.bytes_(b"\xed\xa0\x80")
        f.attrs["overlong"] = np.bytes_(b"\xc0\xaf")
        f.attrs["flag"] = True


def strings():
    """The reference of a variable-length string: u32 length, u64 heap, u32 object."""
    def one(name, change):
        with create(name) as f:
            f.attrs["s"] = "hello, heap"
            f.create_dataset("d", data=["hello, data"], dtype=h5py.string_dtype())
        path = OUT / (name + ".h5")
        data = bytearray(path.read_bytes())
        heap = data.index(b"GCOL")
        at, found = 0, 0
        while (at := data.find(struct.pack("<IQ", 11, heap), at)) >= 0:
            change(data, at, heap)
            at, found = at + 16, found + 1
        assert found == 2, (name, found)
        path.write_bytes(data)

    def put(offset, fmt, value, heap_relative=False):
        def change(data, at, heap):
            struct.pack_into(fmt, data, (heap if heap_relative else at) + offset, value)
        return change

    one("string_4gib", put(0, "<I", 0xfffffff0))
    one("string_60k", put(0, "<I", 60000))
    one("string_longer", put(0, "<I", 12))
    one("string_outside", put(4, "<Q", 1 << 40))
    one("string_no_heap", put(4, "<Q", 96))
    one("string_no_object", put(12, "<I", 77))
    one("string_object_0", put(12, "<I", 0))
    one("heap_object_huge", put(24, "<Q", (1 << 64) - 8, True))
    one("heap_huge", put(8, "<Q", 1 << 62, True))
    # All of 300 strings are the same 400 bytes: 120 kB out of a file of 20 kB.
    with create("string_bomb") as f:
        f.create_dataset("d", data=["z" * 400] + ["a"] * 299, dtype=h5py.string_dtype())
    path = OUT / "string_bomb.h5"
    data = bytearray(path.read_bytes())
    first = next(at for at in range(0, len(data) - 16)
                 if struct.unpack_from("<I", data, at)[0] == 400
                 and data[struct.unpack_from("<Q", data, at + 4)[0]:][:4] == b"GCOL")
    for i in range(1, 300):
        data[first + 16 * i:first + 16 * i + 16] = data[first:first + 16]
    last = struct.unpack_from("<Q", data, first + 4)[0]
    path.write_bytes(data)
    assert data[last:last + 4] == b"GCOL"


def files():
    whole = (OUT / "good_earliest.h5").read_bytes()
    (OUT / "truncated.h5").write_bytes(whole[:len(whole) // 2])
    (OUT / "signature.h5").write_bytes(whole[:8])
    (OUT / "superblock.h5").write_bytes(whole[:40] + b"\xff" * 56 + whole[96:200])
    (OUT / "empty.h5").write_bytes(b"")
    (OUT / "html.h5").write_bytes(b"\n<!DOCTYPE html><html><body>404</body></html>\n")
    (OUT / "zip.h5").write_bytes(b"PK\x03\x04" + bytes(26))
    (OUT / "pickle.h5").write_bytes(b"\x80\x02}q\x00.")
    (OUT / "gzip.h5").write_bytes(b"\x1f\x8b\x08\x00" + bytes(20))
    (OUT / "safetensors.h5").write_bytes(struct.pack("<Q", 2) + b"{}")
    (OUT / "lfs.h5").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:" +
                                 b"0" * 64 + b"\nsize 346000000\n")
    (OUT / "text.h5").write_bytes(b"hello\n")
    (OUT / "one_byte.h5").write_bytes(b"\x89")


OUT.mkdir(exist_ok=True)
for old in OUT.iterdir():
    old.unlink()
good("good_earliest", EARLIEST)
good("good_v110", V110)
good("good_userblock", EARLIEST, userblock_size=512)
links()
storage()
names()
attributes()
strings()
files()
print(sum(p.stat().st_size for p in OUT.iterdir()), "bytes in", len(list(OUT.iterdir())), "files")
