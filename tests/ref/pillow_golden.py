"""Makes what the tests of datasets/ compare with: tests/ref/images.bin and tests/ref/golden_*.h.

    python tests/ref/pillow_golden.py imagenet-sample
                      (Pillow 13, numpy; timm and transformers for golden_preprocess.h)

images.bin, little endian, records until the end of the file:
    u8 name length, name, u32 encoded size, bytes, u8 orientation tag, u8 tolerance,
    u16 width, u16 height, u8 has_alpha, RGB with alpha dropped, and if has_alpha RGB composited
    over (200, 100, 50),
both upright (EXIF applied). The first RGB is Pillow's convert("RGB"), but for what vitrine does
otherwise on purpose: samples of 16 bits are round(v*255/65535). Alpha is composited by
round((c*a + background*(255-a)) / 255). The tolerance is 0 but for AVIF and YCbCr in
TIFF, where the libraries differ in their colour conversion.

golden_photos.h: CRC-32 of Pillow's RGB of each photo of imagenet-sample, and of its resizes.
golden_resize.h: CRC-32 of Pillow's resize of the picture that pattern() makes.
golden_preprocess.h: the same of timm's evaluation transform and of transformers' steps.
"""

import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))
BACKGROUND = np.array([200, 100, 50])
W, H = 13, 9
records = []


def picture(width=W, height=H, seed=1):
    """Smooth colours, an edge and some noise, (height, width, 3)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    p = np.stack([x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1),
                  128 + 100 * np.sin(x / 3 + y / 2)], axis=2)
    p[height // 3:height // 2, width // 4:width // 2] = [250, 20, 40]
    return np.clip(p + rng.normal(0, 9, p.shape), 0, 255).astype(np.uint8)


def alpha(width=W, height=H):
    y, x = np.mgrid[0:height, 0:width]
    return ((x * 19 + y * 23) % 256).astype(np.uint8)


RGB, ALPHA = picture(), alpha()
GREY = RGB[:, :, 1].copy()


def composite(rgb, a):
    rgb, a = rgb.astype(np.int64), a.astype(np.int64)[..., None]
    return ((rgb * a + BACKGROUND * (255 - a) + 127) // 255).astype(np.uint8)


def to8(v):
    return ((v.astype(np.int64) * 255 + 32767) // 65535).astype(np.uint8)


def add(name, data, rgb=None, over=None, tolerance=0, orientation=None):
    """Pillow decodes what is not given."""
    data = bytes(data)
    if rgb is None:
        im = Image.open(io.BytesIO(data))
        if orientation is None:
            orientation = im.getexif().get(0x0112, 1)
        im = ImageOps.exif_transpose(im)
        rgb = np.asarray(im.convert("RGB"))
        if over is None and (im.mode in ("RGBA", "LA", "PA") or "transparency" in im.info):
            a = np.asarray(im.convert("RGBA"))
            over = composite(a[..., :3], a[..., 3])
    over = rgb if over is None else over
    records.append((name, data, orientation or 1, tolerance, rgb, over))


def saved(array, format, mode=None, **options):
    out = io.BytesIO()
    im = array if isinstance(array, Image.Image) else Image.fromarray(array, mode)
    im.save(out, format, **options)
    return out.getvalue()


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block


# --- PNG, by a writer of our own: every colour type, depth and filter, interlaced or not ---

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_rows(samples, depth, channels):
    """samples (h, w, channels) -> filtered rows; the filters take turns."""
    h = samples.shape[0]
    flat = samples.reshape(h, -1)
    if depth == 16:
        raw = flat.astype(">u2").view(np.uint8).reshape(h, -1)
    elif depth == 8:
        raw = flat.astype(np.uint8)
    else:
        bits = ((flat[..., None] >> np.arange(depth - 1, -1, -1)) & 1).reshape(h, -1)
        raw = np.packbits(bits.astype(np.uint8), axis=1)
    step = max(1, depth * channels // 8)
    out, above = b"", np.zeros(raw.shape[1], np.int64)
    for y in range(h):
        row = raw[y].astype(np.int64)
        left = np.concatenate([np.zeros(step, np.int64), row])[:len(row)]
        corner = np.concatenate([np.zeros(step, np.int64), above])[:len(row)]
        p = left + above - corner
        pa, pb, pc = abs(p - left), abs(p - above), abs(p - corner)
        paeth = np.where((pa <= pb) & (pa <= pc), left, np.where(pb <= pc, above, corner))
        guess = [0 * row, left, above, (left + above) // 2, paeth][y % 5]
        out += bytes([y % 5]) + ((row - guess) % 256).astype(np.uint8).tobytes()
        above = row
    return out


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
         (0, 1, 1, 2)]


def png(samples, depth, color, interlace=False, before=b"", pieces=1, after=b"", end=True):
    samples = samples.reshape(samples.shape[0], samples.shape[1], -1)
    h, w, channels = samples.shape
    if interlace:
        raw = b"".join(png_rows(samples[y::dy, x::dx], depth, channels)
                       for x, y, dx, dy in ADAM7 if samples[y::dy, x::dx].size)
    else:
        raw = png_rows(samples, depth, channels)
    data = zlib.compress(raw, 9)
    cut = [len(data) * i // pieces for i in range(pieces + 1)]
    idat = b"".join(chunk(b"IDAT", data[a:b]) for a, b in zip(cut, cut[1:]))
    header = struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, int(interlace))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + idat + after +
            (chunk(b"IEND", b"") if end else b""))


def make_png():
    wide = (RGB.astype(np.uint32) * 251 + np.arange(W)[None, :, None] * 37) % 65536
    wide_a = (ALPHA.astype(np.uint32) * 257 + 100) % 65536
    for lace in (False, True):
        tag = "-interlaced" if lace else ""
        for depth in (1, 2, 4, 8):
            add(f"png-grey{depth}{tag}", png(GREY >> (8 - depth), depth, 0, lace))
            index = (GREY >> (8 - depth)).astype(np.uint8)
            colors = np.random.default_rng(depth).integers(0, 256, (1 << depth, 3), np.uint8)
            palette = chunk(b"PLTE", colors.tobytes())
            add(f"png-palette{depth}{tag}", png(index, depth, 3, lace, palette))
        add(f"png-rgb8{tag}", png(RGB, 8, 2, lace))
        add(f"png-grey-alpha8{tag}", png(np.dstack([GREY, ALPHA]), 8, 4, lace))
        add(f"png-rgba8{tag}", png(np.dstack([RGB, ALPHA]), 8, 6, lace))
        grey = np.repeat(to8(wide[..., :1]), 3, axis=2)
        add(f"png-grey16{tag}", png(wide[..., :1], 16, 0, lace), grey)
        add(f"png-rgb16{tag}", png(wide, 16, 2, lace), to8(wide))
        add(f"png-grey-alpha16{tag}", png(np.dstack([wide[..., 0], wide_a]), 16, 4, lace), grey,
            composite(grey, to8(wide_a)))
        add(f"png-rgba16{tag}", png(np.dstack([wide, wide_a]), 16, 6, lace), to8(wide),
            composite(to8(wide), to8(wide_a)))
    small = np.arange(16, dtype=np.uint8).reshape(4, 4)
    colors = chunk(b"PLTE", bytes(range(100, 130)))  # 10 colours for 16 indices
    add("png-palette-short", png(small, 4, 3, before=colors))
    full = chunk(b"PLTE", bytes(range(48)))
    add("png-palette-alpha", png(small, 4, 3, before=full + chunk(b"tRNS", bytes([0, 128, 7]))))
    # The key is in samples of 4 bits; Pillow compares it with 8-bit ones and finds none.
    ramp = np.repeat(small[..., None] * 17, 3, axis=2)
    add("png-grey-key", png(small, 4, 0, before=chunk(b"tRNS", struct.pack(">H", 5))), ramp,
        composite(ramp, np.where(small == 5, 0, 255)))
    key = chunk(b"tRNS", struct.pack(">HHH", *[int(v) for v in RGB[3, 4]]))
    add("png-rgb-key", png(RGB, 8, 2, before=key))
    add("png-many-idat", png(RGB, 8, 2, pieces=9, before=chunk(b"tEXt", b"a\0b")))
    add("png-no-iend", png(RGB, 8, 2, end=False))
    add("png-1x1", png(RGB[:1, :1], 8, 2))
    add("png-1xN", png(RGB[:, :1], 8, 2, True))
    add("png-Nx1", png(GREY[:1] >> 7, 1, 0))
    frames = [Image.fromarray(picture(seed=s)) for s in (1, 2)]
    add("png-animated", saved(frames[0], "PNG", save_all=True, append_images=frames[1:]))
    for o in (1, 6, 8):
        add(f"png-exif{o}", png(RGB, 8, 2, before=chunk(b"eXIf", exif(o).tobytes()[6:])))


# --- JPEG ---

def jpeg_without(data, marker):
    """The file without its segments `marker`."""
    out, at = data[:2], 2
    while data[at + 1] != 0xDA:
        length = 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        if data[at + 1] != marker:
            out += data[at:at + length]
        at += length
    return out + data[at:]


def make_jpeg():
    big = picture(27, 19, 3)
    for sub in ("4:4:4", "4:2:2", "4:2:0"):
        add(f"jpeg-{sub}", saved(big, "JPEG", quality=88, subsampling=sub))
        add(f"jpeg-progressive-{sub}",
            saved(big, "JPEG", quality=80, subsampling=sub, progressive=True))
    add("jpeg-grey", saved(GREY, "JPEG", quality=90))
    add("jpeg-rgb", saved(big, "JPEG", quality=85, keep_rgb=True))
    add("jpeg-restart", saved(big, "JPEG", quality=70, restart_marker_blocks=3))
    add("jpeg-1x1", saved(RGB[:1, :1], "JPEG"))
    add("jpeg-1xN", saved(picture(1, 37), "JPEG"))
    add("jpeg-Nx1", saved(picture(37, 1), "JPEG"))
    ink = np.dstack([RGB, 255 - GREY])
    cmyk = saved(Image.fromarray(ink, "CMYK"), "JPEG", quality=92)
    adobe = cmyk.index(b"Adobe") + 11  # the colour transform: 0 CMYK, 2 YCCK
    assert cmyk[adobe] == 0
    add("jpeg-cmyk-adobe", cmyk)
    add("jpeg-ycck-adobe", cmyk[:adobe] + b"\x02" + cmyk[adobe + 1:])
    add("jpeg-cmyk-no-adobe", jpeg_without(cmyk, 0xEE))
    for o in range(1, 9):
        add(f"jpeg-exif{o}", saved(picture(16, 8), "JPEG", exif=exif(o)))
    plain = saved(big, "JPEG", quality=60)
    add("jpeg-extraneous", plain[:-2] + b"\x00\x00" + plain[-2:], np.asarray(
        Image.open(io.BytesIO(plain)).convert("RGB")))
    add("jpeg-trailing", plain + b"trailing bytes", None)


# --- GIF, BMP, TGA, PSD, PNM ---

def make_gif():
    p = Image.fromarray(RGB).quantize(16)
    add("gif-grey", saved(GREY, "GIF"))
    add("gif-palette", saved(p, "GIF", interlace=0))
    add("gif-interlaced", saved(Image.fromarray(picture(30, 23)).quantize(200), "GIF"))
    add("gif-transparent", saved(p, "GIF", transparency=3))
    frames = [Image.fromarray(picture(seed=s)).quantize(32) for s in (1, 2, 3)]
    add("gif-animated", saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    noise = np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8)
    add("gif-noise", saved(noise, "GIF"))  # fills the code table, more than once
    plain = saved(p, "GIF", interlace=0)
    at = plain.index(b",", 13 + 3 * 16)
    # The frame moved to (5, 2): the screen grows, the rest shows colour 0.
    moved = plain[:at + 1] + struct.pack("<HH", 5, 2) + plain[at + 5:]
    add("gif-moved", moved)
    flags = plain[10]
    size = 3 << ((flags & 7) + 1)
    bare = plain[:10] + bytes([flags & 0x7F]) + plain[11:13] + plain[13 + size:]
    add("gif-no-palette", bare)


def bmp(width, height, bits, pixels, palette=b"", compression=0, masks=b"", small=False):
    if small:
        header = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(pixels),
                             0, 0, len(palette) // 4 if bits <= 8 else 0, 0)
    body = header + masks + palette
    return b"BM" + struct.pack("<IHHI", 14 + len(body) + len(pixels), 0, 0, 14 + len(body)) + \
        body + pixels


def padded(rows):
    return b"".join(r + b"\0" * (-len(r) % 4) for r in rows)


def make_bmp():
    add("bmp-1", saved(Image.fromarray(GREY).convert("1"), "BMP"))
    add("bmp-8grey", saved(GREY, "BMP"))
    add("bmp-8", saved(Image.fromarray(RGB).quantize(50), "BMP"))
    add("bmp-24", saved(RGB, "BMP"))
    add("bmp-32", saved(np.dstack([RGB, ALPHA]), "BMP"))
    colors = np.random.default_rng(5).integers(0, 256, (16, 4), np.uint8)
    colors[:, 3] = 0
    index = (GREY >> 4).astype(np.uint8)
    even = np.pad(index, ((0, 0), (0, index.shape[1] % 2)))
    rows4 = [(r[0::2] << 4 | r[1::2]).astype(np.uint8).tobytes() for r in even[::-1]]
    add("bmp-4", bmp(W, H, 4, padded(rows4), colors.tobytes()))
    add("bmp-4-topdown", bmp(W, -H, 4, padded(rows4[::-1]), colors.tobytes()))
    rows8 = [r.tobytes() for r in index[::-1]]
    add("bmp-os2", bmp(W, H, 8, padded(rows8), np.pad(colors[:, :3], ((0, 240), (0, 0))).tobytes(),
                       small=True))
    v = RGB.astype(np.uint16)
    five = (v[..., 0] >> 3) << 10 | (v[..., 1] >> 3) << 5 | v[..., 2] >> 3
    six = (v[..., 0] >> 3) << 11 | (v[..., 1] >> 2) << 5 | v[..., 2] >> 3
    add("bmp-555", bmp(W, H, 16, padded([r.astype("<u2").tobytes() for r in five[::-1]])))
    add("bmp-565", bmp(W, H, 16, padded([r.astype("<u2").tobytes() for r in six[::-1]]),
                       compression=3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    rle8 = b""
    for r in index[::-1]:
        for a in range(0, W, 7):
            part = r[a:a + 7]
            if len(part) >= 3 and a % 14 == 0:
                rle8 += bytes([0, len(part)]) + part.tobytes() + b"\0" * (len(part) % 2)
            else:
                rle8 += b"".join(bytes([1, p]) for p in part)
        rle8 += b"\0\0"
    whole = np.pad(colors, ((0, 240), (0, 0)))
    add("bmp-rle8", bmp(W, H, 8, rle8 + b"\0\1", whole.tobytes(), compression=1))
    runs = b"".join(bytes([9, 0x3A, 12, 0x50 + y, 0, 0]) for y in range(H))
    add("bmp-rle4", bmp(W, H, 4, runs + b"\0\1", colors.tobytes(), compression=2))


def make_tga():
    for rle in (None, "tga_rle"):
        tag = "-rle" if rle else ""
        add(f"tga-grey{tag}", saved(GREY, "TGA", compression=rle))
        add(f"tga-palette{tag}", saved(Image.fromarray(RGB).quantize(30), "TGA", compression=rle))
        add(f"tga-rgb{tag}", saved(RGB, "TGA", compression=rle))
        add(f"tga-rgba{tag}", saved(np.dstack([RGB, ALPHA]), "TGA", compression=rle))
    add("tga-topdown", saved(RGB, "TGA", orientation=1))


def psd(depth, compression, data):
    return b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, H, W, depth, 3) + \
        struct.pack(">III", 0, 0, 0) + struct.pack(">H", compression) + data


def make_psd():
    planes = RGB.transpose(2, 0, 1)
    add("psd-rgb", psd(8, 0, planes.tobytes()))
    rows = [bytes([W - 1]) + r.tobytes() for p in planes for r in p]
    add("psd-rle", psd(8, 1, b"".join(struct.pack(">H", len(r)) for r in rows) + b"".join(rows)))
    wide = planes.astype(np.uint32) * 200 + 77
    add("psd-rgb16", psd(16, 0, wide.astype(">u2").tobytes()), to8(wide).transpose(1, 2, 0))


def make_pnm():
    size = b"%d %d\n" % (W, H)
    text = lambda a: b" ".join(b"%d" % v for v in a.ravel())
    bit = (GREY < 100).astype(np.uint8)
    add("pnm-p1", b"P1\n# a comment\n" + size + text(bit) + b"\n")
    add("pnm-p2", b"P2 " + size + b"31\n" + text(GREY >> 3))
    add("pnm-p3", b"P3\n" + size + b"255 # comment\n" + text(RGB))
    add("pnm-p4", b"P4\n" + size + np.packbits(bit, axis=1).tobytes())
    add("pnm-p5", b"P5\n" + size + b"255\n" + GREY.tobytes())
    add("pnm-p5-10", b"P5\n" + size + b"10\n" + (GREY % 11).tobytes())
    add("pnm-p6", b"P6\n" + size + b"255\n" + RGB.tobytes())
    wide = RGB.astype(np.uint32) * 256 + 200
    add("pnm-p5-16", b"P5\n" + size + b"65535\n" + wide[..., 0].astype(">u2").tobytes(),
        np.repeat(to8(wide[..., :1]), 3, axis=2))
    add("pnm-p6-16", b"P6\n" + size + b"65535\n" + wide.astype(">u2").tobytes(), to8(wide))


# --- WebP, TIFF, AVIF ---

def make_webp():
    rgba = np.dstack([picture(26, 19, 4), alpha(26, 19)])
    add("webp-lossy", saved(rgba[..., :3].copy(), "WEBP", quality=70))
    add("webp-lossless", saved(RGB, "WEBP", lossless=True))
    add("webp-alpha", saved(rgba, "WEBP", quality=60))
    add("webp-lossless-alpha", saved(np.dstack([RGB, ALPHA]), "WEBP", lossless=True, exact=True))
    frames = [Image.fromarray(picture(seed=s)) for s in (1, 2)]
    add("webp-animated", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:],
                               lossless=True))
    add("webp-exif6", saved(RGB, "WEBP", lossless=True, exif=exif(6)))


def tiff(samples, bits, photometric, planar=1, tile=None, big=False, extra=None, more=()):
    """An uncompressed TIFF; samples (h, w, channels) of `bits` bits, tiles of (width, height)."""
    order = ">" if big else "<"
    h, w, channels = samples.shape
    planes = [samples] if planar == 1 else [samples[..., c:c + 1] for c in range(channels)]

    def pack(a):
        flat = a.reshape(a.shape[0], -1)
        if bits == 16:
            return flat.astype(order + "u2").tobytes()
        if bits == 8:
            return flat.astype(np.uint8).tobytes()
        cells = ((flat[..., None] >> np.arange(bits - 1, -1, -1)) & 1).reshape(a.shape[0], -1)
        return np.packbits(cells.astype(np.uint8), axis=1).tobytes()

    blocks = []
    for p in planes:
        if tile:
            tw, th = tile
            p = np.pad(p, ((0, -h % th), (0, -w % tw), (0, 0)))
            blocks += [pack(p[y:y + th, x:x + tw]) for y in range(0, h, th)
                       for x in range(0, w, tw)]
        else:
            blocks += [pack(p[y:y + 5]) for y in range(0, h, 5)]  # strips of 5 rows
    at, offsets = 8, []
    for b in blocks:
        offsets.append(at)
        at += len(b)
    tags = [(256, 4, [w]), (257, 4, [h]), (258, 3, [bits] * channels), (259, 3, [1]),
            (262, 3, [photometric]), (277, 3, [channels]), (284, 3, [planar])] + list(more)
    counts = [len(b) for b in blocks]
    if tile:
        tags += [(322, 4, [tile[0]]), (323, 4, [tile[1]]), (324, 4, offsets), (325, 4, counts)]
    else:
        tags += [(273, 4, offsets), (278, 4, [5]), (279, 4, counts)]
    if extra is not None:
        tags.append((338, 3, [extra]))
    tags.sort()
    body, tail = b"", b""
    end = at + 2 + 12 * len(tags) + 4
    for tag, kind, values in tags:
        data = struct.pack(order + {3: "H", 4: "I"}[kind] * len(values), *values)
        if len(data) <= 4:
            value = data.ljust(4, b"\0")
        else:
            value = struct.pack(order + "I", end + len(tail))
            tail += data
        body += struct.pack(order + "HHI", tag, kind, len(values)) + value
    head = (b"MM\0*" if big else b"II*\0") + struct.pack(order + "I", at)
    return head + b"".join(blocks) + struct.pack(order + "H", len(tags)) + body + b"\0" * 4 + tail


def make_tiff():
    rgba = np.dstack([RGB, ALPHA])
    for c in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        add(f"tiff-rgb-{c}", saved(RGB, "TIFF", compression=c))
    add("tiff-ycbcr", saved(Image.fromarray(RGB).convert("YCbCr"), "TIFF"), tolerance=3)
    add("tiff-jpeg", saved(picture(32, 24), "TIFF", compression="jpeg"))
    add("tiff-group4", saved(Image.fromarray(GREY).convert("1"), "TIFF", compression="group4"))
    add("tiff-bit", saved(Image.fromarray(GREY).convert("1"), "TIFF"))
    add("tiff-grey", saved(GREY, "TIFF"))
    add("tiff-palette", saved(Image.fromarray(RGB).quantize(40), "TIFF"))
    add("tiff-rgba", saved(rgba, "TIFF"))
    add("tiff-grey-alpha", saved(Image.fromarray(np.dstack([GREY, ALPHA]), "LA"), "TIFF"))
    add("tiff-cmyk", saved(Image.fromarray(rgba, "CMYK"), "TIFF"))
    add("tiff-white-is-0", tiff(GREY[..., None], 8, 0))
    add("tiff-grey4", tiff(GREY[..., None] >> 4, 4, 1, big=True))
    add("tiff-grey2", tiff(GREY[..., None] >> 6, 2, 1))
    add("tiff-planes", tiff(RGB, 8, 2, planar=2), RGB)
    add("tiff-tiles", tiff(RGB, 8, 2, tile=(16, 16), big=True))
    add("tiff-tile-planes", tiff(RGB, 8, 2, planar=2, tile=(16, 16)), RGB)
    wide = RGB.astype(np.uint32) * 213 + 91
    for big in (False, True):
        tag = "-big" if big else ""
        add(f"tiff-rgb16{tag}", tiff(wide, 16, 2, big=big), to8(wide))
        add(f"tiff-grey16{tag}", tiff(wide[..., :1], 16, 1, big=big),
            np.repeat(to8(wide[..., :1]), 3, axis=2))
    # Premultiplied: straight colours come back as min(255, c*255//a); over: c + bg*(255-a)/255.
    a = ALPHA.astype(np.int64)[..., None]
    mixed = (RGB * a // 255).astype(np.uint8)
    over = np.minimum(255, mixed + (BACKGROUND * (255 - a) + 127) // 255).astype(np.uint8)
    data = tiff(np.dstack([mixed, ALPHA]), 8, 2, extra=1)
    add("tiff-premultiplied", data, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), over)
    for o in range(1, 9):
        stored = io.BytesIO(tiff(RGB, 8, 2))
        base = Image.open(stored).convert("RGB")
        base.getexif()[0x0112] = o
        rgb = np.asarray(ImageOps.exif_transpose(base))
        add(f"tiff-orientation{o}", tiff(RGB, 8, 2, more=[(274, 3, [o])]), rgb, orientation=o)


def make_heif():
    flat = picture(16, 12, 7)
    soft = np.asarray(Image.fromarray(flat).resize((32, 24), Image.Resampling.BICUBIC))
    add("avif-rgb", saved(soft, "AVIF", quality=95, subsampling="4:4:4"), tolerance=6)
    rgba = np.dstack([soft, alpha(32, 24)])
    data = saved(rgba, "AVIF", quality=95, subsampling="4:4:4")
    add("avif-alpha", data, tolerance=8)
    for o in (3, 6):
        data = saved(soft, "AVIF", quality=95, subsampling="4:4:4", exif=exif(o))
        rgb = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        add(f"avif-turned{o}", data, rgb, tolerance=6, orientation=1)  # the container turns it


def write_images():
    with open(os.path.join(HERE, "images.bin"), "wb") as f:
        for name, data, orientation, tolerance, rgb, over in records:
            assert rgb.dtype == over.dtype == np.uint8 and rgb.shape == over.shape, name
            f.write(bytes([len(name)]) + name.encode() + struct.pack("<I", len(data)) + data)
            has_alpha = not np.array_equal(rgb, over)
            f.write(struct.pack("<BBHHB", orientation, tolerance, rgb.shape[1], rgb.shape[0],
                                has_alpha))
            f.write(rgb.tobytes() + (over.tobytes() if has_alpha else b""))
        print(len(records), "pictures,", f.tell(), "bytes")


FILTERS = ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]


def resample(name):
    return Image.Resampling[name.upper()]


def pattern(width, height):
    """(height, width, 3): a formula, so that C can make it too; 0 and 255 are frequent."""
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    v = (37 * x + 91 * y + 13 * x * y + 57 * c) % 256
    return np.where(v < 40, 0, np.where(v > 215, 255, v)).astype(np.uint8)


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def write_header(name, what, lines):
    with open(os.path.join(HERE, name), "w") as f:
        f.write("/* Made by tests/ref/pillow_golden.py: %s */\n" % what)
        f.write("".join("    {%s},\n" % line for line in lines))


def write_photos(folder):
    """For each photo: size, CRC of the RGB, and of the whole picture at 224x224 by each filter."""
    lines = []
    for name in sorted(os.listdir(folder)):
        im = Image.open(os.path.join(folder, name)).convert("RGB")
        crcs = [crc(im)] + [crc(im.resize((224, 224), resample(f))) for f in FILTERS]
        lines.append('"%s", %d, %d,\n     {%s}' % (
            name, *im.size, ", ".join("0x%08x" % c for c in crcs)))
    write_header("golden_photos.h", "name, width, height, CRC-32 of the RGB and of its resizes to\n"
                 " * 224 x 224 by nearest, box, bilinear, hamming, bicubic, lanczos.", lines)


def write_resizes():
    """width, height, new width, new height, filter, CRC."""
    sizes = [(1, 1, 1, 1), (1, 1, 5, 3), (5, 3, 1, 1), (1, 40, 7, 9), (40, 1, 7, 9), (1, 40, 1, 13),
             (40, 1, 13, 1), (31, 17, 31, 17), (31, 17, 31, 40), (31, 17, 31, 5), (31, 17, 62, 17),
             (31, 17, 8, 17), (60, 45, 20, 15), (60, 45, 180, 135), (97, 61, 53, 29),
             (64, 64, 224, 224), (500, 375, 331, 248), (640, 480, 32, 24), (333, 500, 224, 224),
             (7, 800, 5, 31),
             # vertical pass first: the height loses more than twice what the width loses
             (40, 90, 20, 50), (40, 90, 20, 49), (50, 60, 70, 59), (50, 60, 49, 58),
             (50, 60, 49, 57), (10, 1001, 4, 30)]
    lines = []
    for w, h, nw, nh in sizes:
        im = Image.fromarray(pattern(w, h))
        for f in FILTERS:
            lines.append("%d, %d, %d, %d, FILTER_%s, 0x%08x" % (
                w, h, nw, nh, f.upper(), crc(im.resize((nw, nh), resample(f)))))
    write_header("golden_resize.h", "Pillow's resizes of the pattern.", lines)


def write_preprocess():
    """width, height, model height, width, crop_pct, mode, rounding, filter, CRC."""
    from timm.data import create_transform
    from transformers.image_transforms import center_crop
    mean = (0.485, 0.456, 0.406)
    sizes = [(500, 375), (375, 500), (224, 224), (100, 37), (37, 100), (3, 90), (1, 1)]
    lines = []
    for mode in ("center", "squash", "border"):
        for (w, h) in sizes:
            im = Image.fromarray(pattern(w, h))
            for (mh, mw, pct) in [(224, 224, 0.9), (224, 224, 0.875), (96, 160, 0.95),
                                  (57, 31, 1.0), (64, 64, 1.1)]:
                f = FILTERS[len(lines) % 6]
                t = create_transform((3, mh, mw), interpolation=f, crop_pct=pct, crop_mode=mode,
                                     mean=mean, normalize=False)
                try:
                    got = t(im).numpy().transpose(1, 2, 0)
                except ValueError:  # a side that rounds to 0
                    continue
                lines.append("%d, %d, %d, %d, %r, CROP_%s, ROUND_HALF_EVEN, FILTER_%s, 0x%08x" % (
                    w, h, mh, mw, pct, mode.upper(), f.upper(), crc(got)))
    for (w, h) in sizes:
        for (m, scaled) in [(224, 256), (57, 84), (64, 58), (31, 24)]:
            im = Image.fromarray(pattern(w, h)).resize((scaled, scaled), Image.Resampling.BICUBIC)
            lines.append("%d, %d, %d, %d, %d.0 / %d, CROP_SQUASH, ROUND_FLOOR, FILTER_BICUBIC, "
                         "0x%08x" % (w, h, m, m, m, scaled,
                                     crc(center_crop(np.asarray(im), (m, m)))))
    write_header("golden_preprocess.h", "timm's and transformers' results on the pattern.", lines)


def main():
    for make in (make_png, make_jpeg, make_gif, make_bmp, make_tga, make_psd, make_pnm, make_webp,
                 make_tiff, make_heif):
        make()
    write_images()
    write_resizes()
    write_preprocess()
    write_photos(sys.argv[1])


if __name__ == "__main__":
    main()
