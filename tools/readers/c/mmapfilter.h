/* mmapfilter.h reads filter files of mmapfilter. Its answer to "is this key in the set?" is
 * "certainly not" or "maybe". This one file is the whole reader, for C11 and C++17, so that a
 * program can take it as it is. "go doc ./layout" describes the format and the terms used here;
 * rules are cited as F1, R2 and so on.
 *
 * Include it wherever it is needed. In one file of the program, define MMF_IMPLEMENTATION first,
 * and include it before any other header, since it asks for POSIX:
 *
 *	#define MMF_IMPLEMENTATION
 *	#include "mmapfilter.h"
 *
 *	mmf_filter *f;
 *	int err = mmf_open("seen.mmf", &f);
 *	if (err < 0)
 *		fprintf(stderr, "seen.mmf: %s\n", mmf_strerror(err));
 *	else if (mmf_contains(f, "apple", 5))
 *		puts("maybe");
 *
 * With MMF_STATIC defined as well, all functions are static. One call builds a shared object:
 *
 *	cc -O2 -fPIC -shared -fvisibility=hidden -DMMF_IMPLEMENTATION -x c mmapfilter.h -o libmmapfilter.so
 *
 * It needs gcc or clang, POSIX, and a 64-bit little-endian machine. With -march=native, or -mbmi2
 * -mpopcnt, lookups in the layout compact take fewer instructions.
 *
 * Threads: any number of them may use a filter at once, until one closes it. A lookup takes no
 * lock, allocates nothing and writes nothing. Another process may write to the file meanwhile, be
 * killed, and recover it: a key that was synced before a lookup began, and is not deleted, is
 * never answered "certainly not". If a lookup cannot tell, it says "maybe".
 *
 * If someone cuts a mapped file short, or its disk fails, a lookup that reads the lost part ends
 * the process (SIGBUS). Replace files by renaming, as Build does. A program that must survive
 * the fault needs a handler of SIGBUS that jumps back (siglongjmp) to before the lookup, and then
 * takes the answer "maybe" and closes the filter; a library must not install one.
 */
#ifndef MMF_MMAPFILTER_H
#define MMF_MMAPFILTER_H

#if defined(MMF_IMPLEMENTATION) && !defined(_GNU_SOURCE)
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#elif !defined(__FreeBSD__) && !defined(__NetBSD__) /* these have it all, unless they are asked for less */
#if !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE
#endif
#if !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#endif
#endif
#endif

#include <stddef.h>
#include <stdint.h>

#if defined(MMF_STATIC)
#define MMF_API static __attribute__((unused))
#else
#define MMF_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mmf_filter mmf_filter;

/* Errors are below 0. Those from MMF_E_NOT_FILTER on are about the file. */
enum {
	MMF_OK = 0,
	MMF_E_SYSTEM = -1,     /* a system call failed: see errno */
	MMF_E_ARGUMENT = -2,   /* a pointer is null */
	MMF_E_NOT_REGULAR = -3, /* not a regular file */
	MMF_E_NOT_FILTER = -4, /* F1: no magic */
	MMF_E_SHORT = -5,      /* F1: the file ends inside its superblocks */
	MMF_E_CHECKSUM = -6,   /* F1: no copy of the superblock has a valid checksum */
	MMF_E_GENERATION = -7, /* F2 */
	MMF_E_VERSION = -8,    /* F3: a newer version of the format, or none */
	MMF_E_FEATURE = -9,    /* F3: an unknown incompat flag */
	MMF_E_RESERVED = -10,  /* F4, also for the number of a shard */
	MMF_E_HASH = -11,      /* F5 */
	MMF_E_GEOMETRY = -12,  /* F6: layout, its parameters, lines, size of the region, rate, load or capacity */
	MMF_E_SIZE = -13,      /* F6: the size of the file */
	MMF_E_STATE = -14,     /* F7 */
	MMF_E_LENGTH = -15     /* F13, as far as a superblock shows that it is broken */
};

/* What mmf_status says. */
enum {
	MMF_SERVED = 0,      /* lookups read the file */
	MMF_UNRECOVERED = 1, /* its writer died: "maybe" for every key */
	MMF_RECOVERING = 2,  /* the same, but a process recovers it or is about to: ask again soon */
	MMF_SUPERSEDED = 3,  /* another file has taken its place: "maybe", for good; open the path again */
	MMF_REPLACED = 4     /* the path has another file or none; this one gets no more keys: open the path again */
};

/* mmf_open opens a filter. It reads 16 KiB, whatever the size of the file, and never writes. It
 * returns no error if the writer of the file has died: the filter then says "maybe" until
 * mmf_status finds that a process has recovered it (mmapfilter recover, or any writer). */
MMF_API int mmf_open(const char *path, mmf_filter **out);

/* mmf_close frees what mmf_open allocated. No lookup may be in progress. A null pointer is ignored. */
MMF_API void mmf_close(mmf_filter *f);

/* mmf_contains returns 1 for maybe, 0 for certainly not, and an error if a pointer is null. */
MMF_API int mmf_contains(const mmf_filter *f, const void *key, size_t len);

/* mmf_hash returns the hash of a key with the seed of the filter, for mmf_contains_hash. */
MMF_API uint64_t mmf_hash(const mmf_filter *f, const void *key, size_t len);
MMF_API int mmf_contains_hash(const mmf_filter *f, uint64_t hash);

/* The next three functions set found[i] to the answer for key i. They wait for the memory of many
 * keys at once, and so take a fraction of the time of single lookups. They return 0 or an error.
 * The keys of mmf_contains_fixed have one size and lie one after the other. */
MMF_API int mmf_contains_batch(const mmf_filter *f, const void *const *keys, const size_t *lens, size_t n, uint8_t *found);
MMF_API int mmf_contains_fixed(const mmf_filter *f, const void *keys, size_t size, size_t n, uint8_t *found);
MMF_API int mmf_contains_hashes(const mmf_filter *f, const uint64_t *hashes, size_t n, uint8_t *found);

/* mmf_status asks the system about the file, and returns MMF_SERVED or one of the values above.
 * A program that keeps a filter open calls it now and then, say once a second, and opens the path
 * again if it returns MMF_SUPERSEDED or MMF_REPLACED. */
MMF_API int mmf_status(mmf_filter *f);

/* mmf_len returns the number of items; beside a writer, as of its last checkpoint. */
MMF_API uint64_t mmf_len(const mmf_filter *f);
/* mmf_capacity returns the number of items that the file was sized for. */
MMF_API uint64_t mmf_capacity(const mmf_filter *f);
MMF_API uint64_t mmf_seed(const mmf_filter *f);
/* If the file is a shard of a set, mmf_shards returns the number of shards in the set, and sets
 * *number, unless number is null, to the number of this shard. Otherwise it returns 0. A shard
 * answers "certainly not" for the keys of other shards; shard hash · shards >> 64 has a hash. */
MMF_API uint32_t mmf_shards(const mmf_filter *f, uint32_t *number);
/* mmf_normalisation returns the note on how the keys were made. It lives as long as the filter. */
MMF_API const char *mmf_normalisation(const mmf_filter *f);

/* mmf_strerror returns the text of an error, or of a status. */
MMF_API const char *mmf_strerror(int err);

/* mmf_xxh3 is XXH3, 64 bits, with a seed. */
MMF_API uint64_t mmf_xxh3(const void *key, size_t len, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif /* MMF_MMAPFILTER_H */

#if defined(MMF_IMPLEMENTATION) && !defined(MMF_IMPLEMENTED)
#define MMF_IMPLEMENTED

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#if defined(__BMI2__)
#include <immintrin.h>
#endif

#if !defined(__GNUC__)
#error "mmapfilter.h needs gcc or clang"
#endif
#if !defined(__SIZEOF_INT128__) || __SIZEOF_POINTER__ != 8 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mmapfilter.h needs a 64-bit little-endian machine"
#endif
#if !defined(O_CLOEXEC) || (defined(__GLIBC__) && !defined(__USE_MISC) && !defined(__USE_XOPEN_EXTENDED))
#error "include mmapfilter.h before any other header where MMF_IMPLEMENTATION is defined, or define _DEFAULT_SOURCE before all"
#endif

#ifdef __cplusplus
extern "C" {
#endif

__extension__ typedef unsigned __int128 mmf_u128;

#define MMF_INLINE static inline __attribute__((always_inline, unused))

/* MMF_LOAD loads a word that a process may store to meanwhile. The builtins are C11's atomics, in
 * C++ too. No later load moves before a load that acquires, which is all that R2 needs. */
#if !defined(MMF_LOAD) /* a test puts something before each load */
#define MMF_LOAD(word) __atomic_load_n((word), __ATOMIC_ACQUIRE)
#endif

enum {
	MMF_SUPERBLOCK = 4096,
	MMF_COPIES = 4,
	MMF_RUNTIME = 16384, /* offsets */
	MMF_STASH = 20480,
	MMF_REGION = 32768,
	MMF_EPOCH = 0, /* words of the runtime page */
	MMF_STASH_COUNTER = 8,
	MMF_COUNTERS = 256,
	MMF_STASH_GROUPS = 192,
	MMF_TRIES = 8, /* as in the Go reader: see lookupTries in layout/lookup.go */
	MMF_BLOCK = 512, /* keys of a batch that are looked up together */
	MMF_AHEAD = 64,  /* keys of a block whose lines are prefetched ahead */
	MMF_BURST = 16
};

enum { MMF_PACKED = 3, MMF_SEMISORTED = 4, MMF_COMPACT = 7 };
enum { MMF_CLEAN = 1, MMF_LIVE = 2, MMF_SEALED = 3 };

static const uint64_t MMF_MIX1 = 0x9E3779B97F4A7C15u;
static const uint64_t MMF_MIX2 = 0xBB67AE8584CAA73Bu;

typedef struct {
	uint64_t lines, region, file_sealed, file_plain; /* number of lines; the others in bytes */
	uint64_t seed, length, capacity, generation;
	unsigned kind, f, b, q, r, state, size; /* f: bits of a fingerprint, in compact of a guest's; size: bits of a line */
	uint32_t shard, shards;           /* shards is 0 unless the file is a shard */
	uint8_t uuid[16];
	char note[257];
} mmf_head;

struct mmf_filter {
	const uint64_t *region, *stash, *runtime;
	uint64_t n, values, ones, highs; /* lines; 2^f - 1, or 2^r - 1; bits of lanes */
	uint64_t fingerprints;           /* compact: Q·2^r */
	uint64_t seed, mix[2];           /* mix: mixed with the ends of a short key */
	uint64_t last;                   /* last word of the region */
	unsigned kind, f, b, size, r, lanes, counts, count_words;
	int served; /* atomic; 0 while the file must not be read */
	uint64_t offsets[16];      /* compact: lines from home to the other line */
	uint8_t select[8 << 8];    /* compact: position of bit k of a byte */
	uint16_t nibbles[1 << 12]; /* semi-sorted: the four nibbles of each number, the least one lowest */

	int fd;
	void *map;
	size_t map_bytes;
	char *path;
	dev_t dev;
	ino_t ino;
	mmf_head head; /* as of opening */
};

MMF_INLINE uint64_t mmf_hi(uint64_t a, uint64_t b) { return (uint64_t)((mmf_u128)a * b >> 64); }

MMF_INLINE uint64_t mmf_read64(const void *p) {
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}

MMF_INLINE uint32_t mmf_read32(const void *p) {
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}

/* ---- XXH3, 64 bits: the specification of xxHash, "XXH3 Algorithm Overview" ---- */

static const uint8_t mmf_secret[192] = {
	0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
	0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
	0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
	0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
	0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
	0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
	0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
	0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
	0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
	0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
	0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
	0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

#define MMF_P32_1 0x9E3779B1u
#define MMF_P32_2 0x85EBCA77u
#define MMF_P32_3 0xC2B2AE3Du
#define MMF_P64_1 0x9E3779B185EBCA87u
#define MMF_P64_2 0xC2B2AE3D27D4EB4Fu
#define MMF_P64_3 0x165667B19E3779F9u
#define MMF_P64_4 0x85EBCA77C2B2AE63u
#define MMF_P64_5 0x27D4EB2F165667C5u

MMF_INLINE uint64_t mmf_fold(uint64_t a, uint64_t b) {
	mmf_u128 p = (mmf_u128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

MMF_INLINE uint64_t mmf_avalanche(uint64_t h) {
	h = (h ^ h >> 37) * 0x165667919E3779F9u;
	return h ^ h >> 32;
}

MMF_INLINE uint64_t mmf_mix16(const uint8_t *p, const uint8_t *secret, uint64_t seed) {
	return mmf_fold(mmf_read64(p) ^ (mmf_read64(secret) + seed), mmf_read64(p + 8) ^ (mmf_read64(secret + 8) - seed));
}

MMF_INLINE uint64_t mmf_xxh3_9to16(const uint8_t *p, size_t len, uint64_t flip1, uint64_t flip2) {
	uint64_t low = mmf_read64(p) ^ flip1, high = mmf_read64(p + len - 8) ^ flip2;
	return mmf_avalanche(len + __builtin_bswap64(low) + high + mmf_fold(low, high));
}

static uint64_t mmf_xxh3_short(const uint8_t *p, size_t len, uint64_t seed) {
	uint64_t h;
	if (len > 8)
		return mmf_xxh3_9to16(p, len, (mmf_read64(mmf_secret + 24) ^ mmf_read64(mmf_secret + 32)) + seed,
			(mmf_read64(mmf_secret + 40) ^ mmf_read64(mmf_secret + 48)) - seed);
	if (len >= 4) {
		seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
		h = mmf_read32(p + len - 4) + ((uint64_t)mmf_read32(p) << 32);
		h ^= (mmf_read64(mmf_secret + 8) ^ mmf_read64(mmf_secret + 16)) - seed;
		h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
		h *= 0x9FB21C651E98DF25u;
		h ^= (h >> 35) + len;
		h *= 0x9FB21C651E98DF25u;
		return h ^ h >> 28;
	}
	if (len > 0) {
		uint32_t combined = (uint32_t)p[0] << 16 | (uint32_t)p[len >> 1] << 24 | p[len - 1] | (uint32_t)len << 8;
		h = combined ^ ((uint64_t)(mmf_read32(mmf_secret) ^ mmf_read32(mmf_secret + 4)) + seed);
	} else {
		h = seed ^ mmf_read64(mmf_secret + 56) ^ mmf_read64(mmf_secret + 64);
	}
	/* the avalanche of XXH64 */
	h = (h ^ h >> 33) * MMF_P64_2;
	h = (h ^ h >> 29) * MMF_P64_3;
	return h ^ h >> 32;
}

static uint64_t mmf_xxh3_medium(const uint8_t *p, size_t len, uint64_t seed) {
	uint64_t acc = len * MMF_P64_1;
	size_t i;
	if (len <= 128) {
		for (i = (len - 1) / 32 + 1; i-- > 0;) {
			acc += mmf_mix16(p + 16 * i, mmf_secret + 32 * i, seed);
			acc += mmf_mix16(p + len - 16 * (i + 1), mmf_secret + 32 * i + 16, seed);
		}
		return mmf_avalanche(acc);
	}
	for (i = 0; i < 8; i++)
		acc += mmf_mix16(p + 16 * i, mmf_secret + 16 * i, seed);
	acc = mmf_avalanche(acc);
	for (i = 8; i < len / 16; i++)
		acc += mmf_mix16(p + 16 * i, mmf_secret + 16 * (i - 8) + 3, seed);
	acc += mmf_mix16(p + len - 16, mmf_secret + 136 - 17, seed);
	return mmf_avalanche(acc);
}

MMF_INLINE void mmf_stripe(uint64_t acc[8], const uint8_t *p, const uint8_t *secret) {
	int i;
	for (i = 0; i < 8; i++) {
		uint64_t value = mmf_read64(p + 8 * i), key = value ^ mmf_read64(secret + 8 * i);
		acc[i ^ 1] += value;
		acc[i] += (key & 0xFFFFFFFFu) * (key >> 32);
	}
}

static uint64_t mmf_xxh3_long(const uint8_t *p, size_t len, uint64_t seed) {
	uint64_t acc[8] = {MMF_P32_3, MMF_P64_1, MMF_P64_2, MMF_P64_3, MMF_P64_4, MMF_P32_2, MMF_P64_5, MMF_P32_1};
	uint8_t secret[192];
	size_t i, at, stripe;
	uint64_t h = len * MMF_P64_1;
	for (i = 0; i < 192; i += 16) {
		uint64_t low = mmf_read64(mmf_secret + i) + seed, high = mmf_read64(mmf_secret + i + 8) - seed;
		memcpy(secret + i, &low, 8);
		memcpy(secret + i + 8, &high, 8);
	}
	/* A block is 16 stripes of 64 bytes. With each stripe, the secret moves on by 8. */
	for (at = 0, stripe = 0; at + 64 < len; at += 64) {
		mmf_stripe(acc, p + at, secret + 8 * stripe);
		if (++stripe == 16 && at + 64 < len) {
			for (i = 0; i < 8; i++) {
				acc[i] ^= acc[i] >> 47;
				acc[i] = (acc[i] ^ mmf_read64(secret + 128 + 8 * i)) * MMF_P32_1;
			}
			stripe = 0;
		}
	}
	mmf_stripe(acc, p + len - 64, secret + 192 - 64 - 7);
	for (i = 0; i < 4; i++)
		h += mmf_fold(acc[2 * i] ^ mmf_read64(secret + 11 + 16 * i), acc[2 * i + 1] ^ mmf_read64(secret + 11 + 16 * i + 8));
	return mmf_avalanche(h);
}

MMF_API uint64_t mmf_xxh3(const void *key, size_t len, uint64_t seed) {
	const uint8_t *p = (const uint8_t *)key;
	if (len <= 16)
		return mmf_xxh3_short(p, len, seed);
	if (len <= 240)
		return mmf_xxh3_medium(p, len, seed);
	return mmf_xxh3_long(p, len, seed);
}

MMF_INLINE uint64_t mmf_hash_key(const mmf_filter *f, const void *key, size_t len) {
	if (len - 9 < 8)
		return mmf_xxh3_9to16((const uint8_t *)key, len, f->mix[0], f->mix[1]);
	return mmf_xxh3(key, len, f->seed);
}

/* ---- Places ---- */

/* An item is what a lookup of a hash looks for: its home line, and its fingerprint there. */
typedef struct {
	uint64_t line, fp, m; /* m: fp · MMF_MIX1, or 0 in compact */
} mmf_item;

MMF_INLINE mmf_item mmf_split(const mmf_filter *f, unsigned kind, uint64_t h) {
	mmf_item it;
	uint64_t rest = h * f->n;
	it.line = mmf_hi(h, f->n);
	it.m = 0;
	if (kind == MMF_COMPACT) {
		it.fp = mmf_hi(rest, f->fingerprints);
		return it;
	}
	it.fp = 1 + mmf_hi(rest, f->values);
	it.m = it.fp * MMF_MIX1;
	return it;
}

MMF_INLINE uint64_t mmf_alternate(const mmf_filter *f, unsigned kind, const mmf_item *it) {
	uint64_t other;
	if (kind == MMF_COMPACT) {
		other = it->line + f->offsets[it->fp % 16];
		return other - (other >= f->n ? f->n : 0);
	}
	other = mmf_hi((it->m ^ it->m >> 32) * MMF_MIX2, f->n);
	return other - it->line + (other < it->line ? f->n : 0);
}

/* mmf_blocks sets the first and the last block of 64 bytes that a line is in. */
MMF_INLINE void mmf_blocks(const mmf_filter *f, unsigned kind, uint64_t line, uint64_t *first, uint64_t *last) {
	if (kind == MMF_COMPACT) {
		*first = *last = line;
		return;
	}
	*first = line * f->size / 512;
	*last = ((line + 1) * f->size - 1) / 512;
}

MMF_INLINE void mmf_prefetch(const mmf_filter *f, unsigned kind, uint64_t line) {
	uint64_t first, last;
	mmf_blocks(f, kind, line, &first, &last);
	__builtin_prefetch(f->region + 8 * first);
	if (kind != MMF_COMPACT)
		__builtin_prefetch(f->region + 8 * last);
}

/* ---- Looking in one line. Words may change meanwhile, or the file may be damaged. Then the
 * answer means nothing, but no load leaves the line. ---- */

enum { MMF_NO = 0, MMF_YES = 1, MMF_BEYOND = 2 }; /* BEYOND: no, and the item may be elsewhere */

MMF_INLINE uint64_t mmf_lanes(uint64_t x, uint64_t ones, uint64_t highs) { return (x - ones) & ~x & highs; }

MMF_INLINE unsigned mmf_popcount(uint64_t x) {
#if defined(__POPCNT__)
	return (unsigned)__builtin_popcountll(x);
#else
	x -= x >> 1 & 0x5555555555555555u;
	x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
	x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
	return (unsigned)(x * 0x0101010101010101u >> 56);
#endif
}

/* mmf_select returns the position of the k-th set bit of x, counted from 0, or any from 0 to 63 if x
 * has no such bit. */
MMF_INLINE unsigned mmf_select(const mmf_filter *f, uint64_t x, uint64_t k) {
#if defined(__BMI2__)
	(void)f;
	return (unsigned)__builtin_ctzll(_pdep_u64((uint64_t)1 << (k & 63), x) | (uint64_t)1 << 63);
#else
	const uint64_t every = 0x0101010101010101u, highs = 0x8080808080808080u;
	uint64_t sums, low; /* sums: the set bits of each byte and the bytes below it */
	sums = x - (x >> 1 & 0x5555555555555555u);
	sums = (sums & 0x3333333333333333u) + (sums >> 2 & 0x3333333333333333u);
	sums = ((sums + (sums >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * every;
	low = (((k * every | highs) - sums) & highs) >> 7; /* a bit for each byte that ends at k or before */
	low = low * every >> 53 & 56;
	return (unsigned)(low + f->select[((k - (sums << 8 >> low)) << 8 | (x >> low & 0xFF)) & 2047]) & 63;
#endif
}

/* mmf_window returns 64 bits of a line from a bit on; those past the end of the line are arbitrary. */
MMF_INLINE uint64_t mmf_window(const uint64_t *l, uint64_t bit) {
	uint64_t i = bit / 64;
	unsigned low = (unsigned)(bit % 64);
	return MMF_LOAD(l + (i & 7)) >> low | MMF_LOAD(l + ((i + 1) & 7)) << 1 << (63 - low);
}

/* mmf_look_run does the work of mmf_look_compact if the counts take three words, or if a run of
 * items goes on in the next word or takes more than 64 bits. */
static __attribute__((noinline)) int mmf_look_run(const mmf_filter *f, const uint64_t *l, uint64_t fp) {
	uint64_t k = fp >> f->r, q = k, at = 0, slot, rem = fp & f->values;
	unsigned i;
	for (i = 0; i < f->count_words; i++) {
		uint64_t zeros = ~MMF_LOAD(l + i);
		unsigned n = mmf_popcount(zeros);
		if (k < n) {
			at = 64 * i + mmf_select(f, zeros, k);
			break;
		}
		k -= n;
	}
	if (i == f->count_words)
		return MMF_NO; /* damaged, or read while it changes */
	for (slot = at - q; ++at < f->counts && MMF_LOAD(l + at / 64) >> (at % 64) & 1; slot++)
		if ((mmf_window(l, f->counts + slot * f->r) & f->values) == rem)
			return MMF_YES;
	return MMF_NO;
}

MMF_INLINE int mmf_look_compact(const mmf_filter *f, uint64_t line, const mmf_item *it) {
	const uint64_t *l = f->region + 8 * line;
	uint64_t fp = it->fp, match, width = 64; /* width of the remainders of the run */
	if (f->count_words <= 2) {
		uint64_t q = fp >> f->r, x = ~MMF_LOAD(l), next = ~MMF_LOAD(l + 1), later, at, rest;
		unsigned zeros = mmf_popcount(x);
		later = 0 - (uint64_t)(q >= zeros); /* all ones if the quotient is in the second word */
		x ^= (x ^ next) & later;
		at = mmf_select(f, x, q - (zeros & later));
		rest = x >> 1 >> at;
		width = rest ? (uint64_t)(unsigned)__builtin_ctzll(rest) * f->r : 64;
		x = mmf_window(l, f->counts + (at + (64 & later) - q) * f->r) ^ (fp & f->values) * f->ones;
		match = mmf_lanes(x, f->ones, f->highs) & (((uint64_t)1 << (width & 63)) - 1);
	} else {
		match = 0;
	}
	if (__builtin_expect(width >= 64, 0))
		match = (uint64_t)mmf_look_run(f, l, fp);
	return match ? MMF_YES : MMF_LOAD(l + 7) >> (48 + fp % 16) & 1 ? MMF_BEYOND : MMF_NO;
}

static int mmf_look_guests(const mmf_filter *f, uint64_t line, const mmf_item *it) {
	const uint64_t *l = f->region + 8 * line;
	unsigned j, n = (unsigned)(MMF_LOAD(l + 7) >> 44 & 15);
	uint64_t mask = ((uint64_t)1 << f->f) - 1;
	for (j = 0; j < n; j++)
		if ((mmf_window(l, 492 - f->f * (j + 1)) & mask) == it->fp)
			return MMF_YES;
	return MMF_NO;
}

/* mmf_bits returns n bits of words, 1 to 64, from a bit on. */
MMF_INLINE uint64_t mmf_bits(const uint64_t *w, uint64_t bit, unsigned n) {
	unsigned low = (unsigned)(bit % 64);
	uint64_t v = w[bit / 64] >> low;
	if (low + n > 64)
		v |= w[bit / 64 + 1] << (64 - low);
	return v & (~(uint64_t)0 >> (64 - n));
}

/* mmf_sorted tells whether a semi-sorted bucket has a fingerprint: the bucket starts at bit 0 of
 * two words. */
MMF_INLINE int mmf_sorted(const mmf_filter *f, mmf_u128 x, uint64_t fp) {
	unsigned tail = f->f - 4, i;
	uint64_t mask = ((uint64_t)1 << tail) - 1, nibbles = f->nibbles[(unsigned)x & 0xFFF], found = 0;
	x >>= 12;
	for (i = 0; i < 4; i++) {
		found |= ((((nibbles >> 4 * i & 15) ^ fp >> tail) | (((uint64_t)x & mask) ^ (fp & mask))) - 1) >> 63;
		x >>= tail;
	}
	return (int)found;
}

/* mmf_look_paper looks in a line of packed or semi-sorted. Lookups in both go on to the other line. */
MMF_INLINE int mmf_look_paper(const mmf_filter *f, unsigned kind, uint64_t line, const mmf_item *it) {
	uint64_t bit = line * f->size, i = bit / 64, end, found = 0;
	unsigned low = (unsigned)(bit % 64), j, words;
	uint64_t w[6];
	if (f->size <= 64) { /* without a branch on whether the bucket is in one word or in two */
		uint64_t x = MMF_LOAD(f->region + i) >> low | MMF_LOAD(f->region + (i < f->last ? i + 1 : i)) << 1 << (63 - low);
		if (kind == MMF_SEMISORTED)
			return mmf_sorted(f, x, it->fp) ? MMF_YES : MMF_BEYOND;
		return mmf_lanes(x ^ it->fp * f->ones, f->ones, f->highs) ? MMF_YES : MMF_BEYOND;
	}
	words = (low + f->size + 63) / 64;
	for (j = 0; j < 6; j++)
		w[j] = j < words ? MMF_LOAD(f->region + i + j) : 0;
	if (kind == MMF_SEMISORTED) {
		mmf_u128 x = ((mmf_u128)w[1] << 64 | w[0]) >> low;
		if (low)
			x |= (mmf_u128)w[2] << (128 - low);
		return mmf_sorted(f, x, it->fp) ? MMF_YES : MMF_BEYOND;
	}
	for (bit = low, end = low + f->size; bit < end; bit += f->lanes * f->f)
		found |= mmf_lanes(mmf_bits(w, bit, f->lanes * f->f) ^ it->fp * f->ones, f->ones, f->highs);
	return found ? MMF_YES : MMF_BEYOND;
}

MMF_INLINE int mmf_look(const mmf_filter *f, unsigned kind, uint64_t line, const mmf_item *it) {
	return kind == MMF_COMPACT ? mmf_look_compact(f, line, it) : mmf_look_paper(f, kind, line, it);
}

MMF_INLINE int mmf_look_other(const mmf_filter *f, unsigned kind, uint64_t line, const mmf_item *it) {
	return kind == MMF_COMPACT ? mmf_look_guests(f, line, it) : mmf_look(f, kind, line, it);
}

static int mmf_look_stash(const mmf_filter *f, unsigned kind, uint64_t other, const mmf_item *it) {
	uint64_t key = kind != MMF_COMPACT && other < it->line ? other : it->line;
	uint64_t group = mmf_hi((key ^ it->fp * MMF_MIX2) * MMF_MIX1, MMF_STASH_GROUPS);
	int i, j;
	for (i = 0; i < MMF_STASH_GROUPS; i++) {
		const uint64_t *g = f->stash + 8 * group;
		for (j = 0; j < 8; j += 2) {
			uint64_t w1 = MMF_LOAD(g + j + 1);
			if (w1 >> 32 == it->fp && (uint32_t)w1 != 0 && (MMF_LOAD(g + j) & ~((uint64_t)1 << 63)) == key)
				return MMF_YES;
		}
		if (!(MMF_LOAD(g) >> 63))
			break;
		group = group + 1 < MMF_STASH_GROUPS ? group + 1 : 0;
	}
	return MMF_NO;
}

/* ---- Lookups: rule R2. Why this is enough is in layout/lookup.go. ---- */

/* A watch has the counters that a lookup loads before its first place and after its last. Counters
 * only rise, so none has changed if their sum has not. The epoch falls when a file turns out not to
 * be superseded; but the value from which it falls is odd. */
typedef struct {
	const uint64_t *word[6];
	unsigned n;
} mmf_watch;

MMF_INLINE void mmf_watch_line(const mmf_filter *f, unsigned kind, mmf_watch *w, uint64_t line) {
	uint64_t first, last;
	mmf_blocks(f, kind, line, &first, &last);
	w->word[w->n++] = f->runtime + MMF_COUNTERS + first % 256;
	if (last != first)
		w->word[w->n++] = f->runtime + MMF_COUNTERS + last % 256;
}

MMF_INLINE uint64_t mmf_watch_load(const mmf_watch *w, uint64_t *odd) {
	uint64_t sum = 0;
	unsigned i;
	for (i = 0; i < w->n; i++) {
		uint64_t c = MMF_LOAD(w->word[i]);
		sum += c;
		*odd |= c;
	}
	return sum;
}

/* mmf_look_all looks in all places, from the beginning, until nothing moves meanwhile. */
MMF_INLINE int mmf_look_all(const mmf_filter *f, unsigned kind, const mmf_item *it, uint64_t other) {
	mmf_watch w;
	int tries;
	w.n = 0;
	w.word[w.n++] = f->runtime + MMF_EPOCH;
	w.word[w.n++] = f->runtime + MMF_STASH_COUNTER;
	mmf_watch_line(f, kind, &w, it->line);
	mmf_watch_line(f, kind, &w, other);
	for (tries = 0; tries < MMF_TRIES; tries++) {
		uint64_t odd = 0, before = mmf_watch_load(&w, &odd);
		int look = mmf_look(f, kind, it->line, it);
		if (look == MMF_YES)
			return 1;
		if (look == MMF_BEYOND && (mmf_look_other(f, kind, other, it) == MMF_YES || mmf_look_stash(f, kind, other, it) == MMF_YES))
			return 1;
		if (mmf_watch_load(&w, &odd) == before && !(odd & 1))
			return 0;
	}
	return 1;
}

/* mmf_first looks only in the home line. If it returns MMF_BEYOND, mmf_look_all must find the
 * answer. No branch depends on what is found, since it would be mispredicted half of the time.
 * Lookups in packed and semi-sorted always go on, and need no counters here. */
MMF_INLINE int mmf_first(const mmf_filter *f, unsigned kind, const mmf_item *it) {
	const uint64_t *epoch = f->runtime + MMF_EPOCH, *counter = f->runtime + MMF_COUNTERS + it->line % 256;
	uint64_t e, c, moved;
	int look;
	if (kind == MMF_PACKED || kind == MMF_SEMISORTED)
		return mmf_look(f, kind, it->line, it);
	e = MMF_LOAD(epoch);
	c = MMF_LOAD(counter);
	look = mmf_look(f, kind, it->line, it);
	moved = ((e | c) & 1) | (MMF_LOAD(epoch) ^ e) | (MMF_LOAD(counter) ^ c);
	return look | (look == MMF_NO && moved ? MMF_BEYOND : 0);
}

MMF_INLINE int mmf_ask(const mmf_filter *f, unsigned kind, uint64_t h) {
	mmf_item it = mmf_split(f, kind, h);
	int look = MMF_BEYOND;
	uint64_t other;
	if (kind == MMF_COMPACT) {
		look = mmf_first(f, kind, &it);
		if (__builtin_expect(look != MMF_BEYOND, 1))
			return look;
	}
	other = mmf_alternate(f, kind, &it);
	mmf_prefetch(f, kind, other);
	return mmf_look_all(f, kind, &it, other);
}

/* A batch takes three passes over a block of keys. The first prefetches home lines, MMF_AHEAD keys
 * before it looks in them, and in bursts, so that addresses are translated at the same time. It
 * answers nearly all keys. For the rest, the second prefetches the other lines, and the third looks. */
MMF_INLINE void mmf_ask_block(const mmf_filter *f, unsigned kind, const uint64_t *h, size_t n, uint8_t *found) {
	uint16_t open[MMF_BLOCK];
	uint64_t others[MMF_BLOCK];
	size_t i = 0, asked = 0, opens = 0, end;
	while (i < n) {
		for (end = i + MMF_AHEAD < n ? i + MMF_AHEAD : n; asked < end; asked++)
			mmf_prefetch(f, kind, mmf_hi(h[asked], f->n));
		for (end = i + MMF_BURST < n ? i + MMF_BURST : n; i < end; i++) {
			mmf_item it = mmf_split(f, kind, h[i]);
			int look = mmf_first(f, kind, &it);
			found[i] = (uint8_t)(look & 1);
			open[opens] = (uint16_t)i;
			opens += look == MMF_BEYOND;
		}
	}
	for (i = 0; i < opens; i++) {
		mmf_item it = mmf_split(f, kind, h[open[i]]);
		others[i] = mmf_alternate(f, kind, &it);
		mmf_prefetch(f, kind, others[i]);
	}
	for (i = 0; i < opens; i++) {
		mmf_item it = mmf_split(f, kind, h[open[i]]);
		found[open[i]] = (uint8_t)mmf_look_all(f, kind, &it, others[i]);
	}
}

static void mmf_block(const mmf_filter *f, const uint64_t *h, size_t n, uint8_t *found) {
	switch (f->kind) {
	case MMF_COMPACT:
		mmf_ask_block(f, MMF_COMPACT, h, n, found);
		break;
	case MMF_PACKED:
		mmf_ask_block(f, MMF_PACKED, h, n, found);
		break;
	default:
		mmf_ask_block(f, MMF_SEMISORTED, h, n, found);
	}
}

MMF_INLINE int mmf_is_served(const mmf_filter *f) { return __atomic_load_n(&f->served, __ATOMIC_ACQUIRE); }

/* mmf_own sets *own to the hash by which the file knows the key with a given hash. It tells whether
 * the file may have that key: a shard has only a range of hashes. */
MMF_INLINE int mmf_own(const mmf_filter *f, uint64_t hash, uint64_t *own) {
	*own = f->head.shards ? hash * f->head.shards : hash;
	return !f->head.shards || mmf_hi(hash, f->head.shards) == f->head.shard;
}

MMF_API int mmf_contains_hash(const mmf_filter *f, uint64_t hash) {
	if (!f)
		return MMF_E_ARGUMENT;
	if (!mmf_is_served(f))
		return 1;
	if (__builtin_expect(f->head.shards != 0, 0) && !mmf_own(f, hash, &hash))
		return 0;
	switch (f->kind) {
	case MMF_COMPACT:
		return mmf_ask(f, MMF_COMPACT, hash);
	case MMF_PACKED:
		return mmf_ask(f, MMF_PACKED, hash);
	}
	return mmf_ask(f, MMF_SEMISORTED, hash);
}

MMF_API uint64_t mmf_hash(const mmf_filter *f, const void *key, size_t len) { return mmf_hash_key(f, key, len); }

MMF_API int mmf_contains(const mmf_filter *f, const void *key, size_t len) {
	if (!f || (!key && len))
		return MMF_E_ARGUMENT;
	return mmf_contains_hash(f, mmf_hash_key(f, key, len));
}

MMF_API int mmf_contains_hashes(const mmf_filter *f, const uint64_t *hashes, size_t n, uint8_t *found) {
	uint64_t own[MMF_BLOCK], unused;
	size_t i, j, m;
	if (!f || (n && (!hashes || !found)))
		return MMF_E_ARGUMENT;
	if (!mmf_is_served(f)) {
		if (n)
			memset(found, 1, n);
		return MMF_OK;
	}
	for (i = 0; i < n; i += m) {
		m = n - i < MMF_BLOCK ? n - i : (size_t)MMF_BLOCK;
		if (!f->head.shards) {
			mmf_block(f, hashes + i, m, found + i);
			continue;
		}
		for (j = 0; j < m; j++)
			(void)mmf_own(f, hashes[i + j], &own[j]);
		mmf_block(f, own, m, found + i);
		for (j = 0; j < m; j++)
			found[i + j] &= (uint8_t)mmf_own(f, hashes[i + j], &unused);
	}
	return MMF_OK;
}

MMF_API int mmf_contains_batch(const mmf_filter *f, const void *const *keys, const size_t *lens, size_t n, uint8_t *found) {
	uint64_t h[MMF_BLOCK];
	size_t i, j, m;
	if (!f || (n && (!keys || !lens || !found)))
		return MMF_E_ARGUMENT;
	for (i = 0; i < n; i += m) {
		m = n - i < MMF_BLOCK ? n - i : (size_t)MMF_BLOCK;
		for (j = 0; j < m; j++) {
			if (!keys[i + j] && lens[i + j])
				return MMF_E_ARGUMENT;
			h[j] = mmf_hash_key(f, keys[i + j], lens[i + j]);
		}
		mmf_contains_hashes(f, h, m, found + i);
	}
	return MMF_OK;
}

MMF_API int mmf_contains_fixed(const mmf_filter *f, const void *keys, size_t size, size_t n, uint8_t *found) {
	uint64_t h[MMF_BLOCK];
	const uint8_t *key = (const uint8_t *)keys;
	size_t i, j, m;
	if (!f || (n && ((!keys && size) || !found)))
		return MMF_E_ARGUMENT;
	for (i = 0; i < n; i += m) {
		m = n - i < MMF_BLOCK ? n - i : (size_t)MMF_BLOCK;
		for (j = 0; j < m; j++)
			h[j] = mmf_hash_key(f, size ? key + size * (i + j) : key, size);
		mmf_contains_hashes(f, h, m, found + i);
	}
	return MMF_OK;
}

/* ---- The superblock ---- */

static uint32_t mmf_crc32c(const uint8_t *p, size_t n) {
	uint32_t table[256], crc = 0xFFFFFFFFu, i, j;
	for (i = 0; i < 256; i++) {
		table[i] = i;
		for (j = 0; j < 8; j++)
			table[i] = table[i] >> 1 ^ (0x82F63B78u & (0 - (table[i] & 1)));
	}
	while (n-- > 0)
		crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
	return ~crc;
}

static int mmf_all_zero(const uint8_t *p, size_t from, size_t to) {
	for (; from < to; from++)
		if (p[from])
			return 0;
	return 1;
}

static uint64_t mmf_roundup(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* mmf_geometry checks layout, parameters and lines against F6, and sets the sizes, and f and b of compact. */
static int mmf_geometry(mmf_head *h) {
	unsigned bits = 0, of_shard = 0, need = h->f + 2, known = 0, g = 0;
	uint64_t table;
	if (!h->lines)
		return 0;
	while (bits < 64 && (h->lines - 1) >> bits)
		bits++;
	while (h->shards && (uint64_t)(h->shards - 1) >> of_shard)
		of_shard++;
	switch (h->kind) {
	case MMF_COMPACT:
		known = h->q >= 16 && h->q <= 64 && h->r >= 4 && h->r <= 26 && (uint64_t)h->q << h->r <= (uint64_t)1 << 31;
		if (!known)
			return 0;
		while ((h->q - 1) >> g)
			g++;
		h->f = g + h->r;
		h->b = (491 - h->q - g) / (h->r + 1);
		for (need = 3; ((((uint64_t)h->q << h->r) - 1) >> (need - 3)) != 0;)
			need++;
		h->size = 512;
		break;
	case MMF_PACKED:
		known = h->f >= 4 && h->f <= 32 && (h->b == 1 || h->b == 2 || h->b == 4 || h->b == 8);
		h->size = h->f * h->b;
		break;
	case MMF_SEMISORTED:
		known = h->f >= 5 && h->f <= 32 && h->b == 4;
		h->size = 4 * h->f - 4;
		break;
	}
	if (!known || of_shard + bits + need > 64 || (mmf_u128)h->lines * h->size > (mmf_u128)1 << 48)
		return 0;
	h->region = mmf_roundup((h->lines * h->size + 7) / 8, 64);
	h->file_plain = mmf_roundup(MMF_REGION + h->region, 4096);
	table = 4 * ((h->file_plain - MMF_RUNTIME + 65535) / 65536);
	h->file_sealed = mmf_roundup(mmf_roundup(h->file_plain + table, 64) + 64, 4096);
	return 1;
}

/* mmf_check checks the superblock that counts against F2 to F7. */
static int mmf_check(const uint8_t *s, mmf_head *h) {
	double rate, load;
	uint64_t slots, compat = mmf_read64(s + 24), replica = mmf_read64(s + 32) & 2, follows = compat & 4;
	if (mmf_read32(s + 8) > 1)
		return MMF_E_VERSION;
	if (mmf_read64(s + 40) & ~(uint64_t)1)
		return MMF_E_FEATURE;
	if (mmf_read32(s + 8) == 0)
		return MMF_E_VERSION;
	if (!(h->generation = mmf_read64(s + 16)))
		return MMF_E_GENERATION;
	if (!(compat & ~(uint64_t)7) && !(mmf_all_zero(s, 12, 16) && mmf_all_zero(s, 69, 72) && mmf_all_zero(s, 528, 536) && mmf_all_zero(s, 592, 4092)))
		return MMF_E_RESERVED;
	if (!(compat & 1) && !(mmf_all_zero(s, 176, 200) && mmf_all_zero(s, replica ? 240 : 216, 256) && mmf_all_zero(s, 512, 528) && mmf_all_zero(s, 536, 552)))
		return MMF_E_RESERVED;
	if ((compat & 1) && replica)
		return MMF_E_RESERVED;
	if (!replica && !mmf_all_zero(s, 552, 560))
		return MMF_E_RESERVED;
	if (follows != (mmf_read64(s + 32) & 4) || (follows ? !(compat & 1) : !mmf_all_zero(s, 560, 592)))
		return MMF_E_RESERVED;
	if (!(mmf_read64(s + 40) & 1) && !mmf_all_zero(s, 200, 216))
		return MMF_E_RESERVED;
	h->shard = mmf_read32(s + 200);
	h->shards = mmf_read32(s + 204);
	if ((mmf_read64(s + 40) & 1) && h->shard >= h->shards)
		return MMF_E_RESERVED;
	h->seed = mmf_read64(s + 72);
	if (s[68] != 1 || mmf_read64(s + 80) != mmf_xxh3("mmapfilter canary", 17, h->seed))
		return MMF_E_HASH;
	h->state = s[64];
	if (h->state < MMF_CLEAN || h->state > MMF_SEALED)
		return MMF_E_STATE;
	h->kind = s[65];
	h->f = h->q = s[66];
	h->b = h->r = s[67];
	h->lines = mmf_read64(s + 88);
	if (!mmf_geometry(h) || mmf_read64(s + 96) != h->region)
		return MMF_E_GEOMETRY;
	memcpy(&rate, s + 112, 8);
	memcpy(&load, s + 120, 8);
	if (!(rate > 0 && rate < 1 && load > 0 && load <= 1))
		return MMF_E_GEOMETRY;
	slots = h->lines * h->b;
	if ((h->capacity = mmf_read64(s + 104)) > slots)
		return MMF_E_GEOMETRY;
	h->length = mmf_read64(s + 128);
	if (h->state == MMF_SEALED && h->length > slots + (uint64_t)768 * 0xFFFFFFFFu)
		return MMF_E_LENGTH;
	memcpy(h->uuid, s + 48, 16);
	memcpy(h->note, s + 256, 256);
	h->note[256] = 0;
	return MMF_OK;
}

/* mmf_read_head reads the superblocks of a file, and checks the one that counts, and the size. */
static int mmf_read_head(int fd, mmf_head *h, struct stat *st) {
	static const char magic[] = "MMAPFLTR";
	uint8_t raw[MMF_RUNTIME];
	const uint8_t *best = NULL;
	size_t got = 0;
	int i, marked = 0, err;
	memset(h, 0, sizeof *h);
	if (fstat(fd, st) != 0)
		return MMF_E_SYSTEM;
	if (!S_ISREG(st->st_mode))
		return MMF_E_NOT_REGULAR;
	while (got < sizeof raw) {
		ssize_t n = pread(fd, raw + got, sizeof raw - got, (off_t)got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return MMF_E_SYSTEM;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	if (got < sizeof raw)
		return memcmp(raw, magic, got < 8 ? got : 8) ? MMF_E_NOT_FILTER : MMF_E_SHORT;
	for (i = 0; i < MMF_COPIES; i++) {
		const uint8_t *s = raw + MMF_SUPERBLOCK * i;
		if (memcmp(s, magic, 8) != 0)
			continue;
		marked = 1;
		if (best && mmf_read64(s + 16) <= mmf_read64(best + 16))
			continue; /* it does not count, intact or not */
		if (mmf_crc32c(s, MMF_SUPERBLOCK - 4) == mmf_read32(s + MMF_SUPERBLOCK - 4))
			best = s;
	}
	if (!best)
		return marked ? MMF_E_CHECKSUM : MMF_E_NOT_FILTER;
	if ((err = mmf_check(best, h)) < 0)
		return err;
	if ((uint64_t)st->st_size != h->file_sealed && ((uint64_t)st->st_size != h->file_plain || h->state == MMF_SEALED))
		return MMF_E_SIZE;
	return MMF_OK;
}

/* ---- May the file be read? ---- */

/* mmf_locked tells whether a process has a write lock on a byte of the file. A writer locks byte 0,
 * and byte 1 too once the file needs no recovery. Only Linux has locks that tell as much; elsewhere
 * the answer is no, so a file with a living writer says "maybe". */
static int mmf_locked(int fd, int part) {
#if defined(__linux__)
#if !defined(F_OFD_GETLK)
#define F_OFD_GETLK 36
#endif
	struct flock l;
	memset(&l, 0, sizeof l);
	l.l_type = F_RDLCK; /* conflicts only with write locks */
	l.l_whence = SEEK_SET;
	l.l_start = part;
	l.l_len = 1;
	return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
#else
	(void)fd;
	(void)part;
	return 0;
#endif
}

/* mmf_next_uuid computes the UUID that a sealed file gets with its first operation: XXH3, 128 bits, of
 * the UUID before, with the salt of the log as the seed, highest byte first (L2). */
static void mmf_next_uuid(const uint8_t uuid[16], uint64_t salt, uint8_t next[16]) {
	uint64_t first = mmf_read64(uuid), last = mmf_read64(uuid + 8), low, high;
	mmf_u128 p = (mmf_u128)(first ^ last ^ ((mmf_read64(mmf_secret + 32) ^ mmf_read64(mmf_secret + 40)) - salt)) * MMF_P64_1;
	low = (uint64_t)p + ((uint64_t)15 << 54);
	last ^= (mmf_read64(mmf_secret + 48) ^ mmf_read64(mmf_secret + 56)) + salt;
	high = (uint64_t)(p >> 64) + last + (last & 0xFFFFFFFFu) * (MMF_P32_2 - 1);
	low ^= __builtin_bswap64(high);
	p = (mmf_u128)low * MMF_P64_2;
	high = __builtin_bswap64(mmf_avalanche((uint64_t)(p >> 64) + high * MMF_P64_2));
	low = __builtin_bswap64(mmf_avalanche((uint64_t)p));
	memcpy(next, &high, 8);
	memcpy(next + 8, &low, 8);
}

/* mmf_begun tells whether a page of a log begins a segment of a generation after the given one. A page
 * that is neither zero nor an older segment counts, too. */
static int mmf_begun(int fd, off_t at, uint64_t generation) {
	static const uint64_t zero[16] = {0};
	uint64_t w[16];
	ssize_t n = pread(fd, w, sizeof w, at);
	if (n != (ssize_t)sizeof w)
		return n < 0;
	return memcmp(w, zero, sizeof w) != 0 && (memcmp(w, "MMFBEGIN", 8) != 0 || w[1] > generation);
}

/* mmf_log_ahead tells whether a log beside a file at rest has operations of a later generation than
 * the file's superblock. Then the superblock that says that the file is live is lost, and the file
 * must not be read (L2). It ignores the log of another file, and a log without operations. */
static int mmf_log_ahead(const char *path, const mmf_head *h) {
	static const char *const names[2] = {".stash", ".stash.new"};
	char *real = realpath(path, NULL), *name;
	int i, slot, ahead = 0;
	if (!real)
		return errno == ENOMEM;
	name = (char *)malloc(strlen(real) + 16);
	for (i = 0; i < 2 && name; i++) {
		struct stat st;
		int fd;
		strcpy(name, real);
		strcat(name, names[i]);
		if ((fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0) {
			ahead |= errno == EMFILE || errno == ENFILE || errno == ENOMEM; /* the log may exist */
			continue;
		}
		for (slot = 0; slot < 2 && fstat(fd, &st) == 0; slot++) {
			uint64_t w[8];
			uint8_t next[16];
			off_t half = st.st_size > 8192 ? (st.st_size - 8192) / 8192 * 4096 : 0;
			if (pread(fd, w, sizeof w, 4096 * slot) != (ssize_t)sizeof w || memcmp(w, "MMAPFLOG", 8) != 0 ||
				w[7] != mmf_crc32c((const uint8_t *)w, 56) || w[4] <= h->generation)
				continue;
			mmf_next_uuid(h->uuid, w[5], next);
			if (memcmp(w + 2, h->uuid, 16) != 0 && memcmp(w + 2, next, 16) != 0)
				continue;
			ahead |= w[4] - h->generation > 1 || mmf_begun(fd, 8192, h->generation) || mmf_begun(fd, 8192 + half, h->generation);
		}
		close(fd);
	}
	free(real);
	free(name);
	return ahead || !name;
}

/* mmf_examine reads the superblocks, and finds out whether the file may be read: if it is at rest, or
 * a writer has it open. Since a writer may close or open the file between these two checks, it tries
 * three times. */
static int mmf_examine(int fd, const char *path, mmf_head *h, struct stat *st, int *served) {
	int tries, err;
	for (tries = 0, *served = 0; tries < 3; tries++) {
		if ((err = mmf_read_head(fd, h, st)) < 0)
			return err;
		*served = mmf_locked(fd, 1) || (h->state != MMF_LIVE && !mmf_log_ahead(path, h));
		if (*served)
			break;
	}
	return MMF_OK;
}

/* ---- Opening ---- */

static void mmf_bind(mmf_filter *f) {
	const mmf_head *h = &f->head;
	unsigned i, b, k, lane = h->f, near = 1, next = 2;
	f->kind = h->kind;
	f->f = h->f;
	f->b = h->b;
	f->n = h->lines;
	f->size = h->size;
	f->seed = h->seed;
	f->mix[0] = (mmf_read64(mmf_secret + 24) ^ mmf_read64(mmf_secret + 32)) + h->seed;
	f->mix[1] = (mmf_read64(mmf_secret + 40) ^ mmf_read64(mmf_secret + 48)) - h->seed;
	f->last = h->region / 8 - 1;
	f->lanes = h->b;
	if (h->kind == MMF_COMPACT) {
		f->r = lane = h->r;
		f->fingerprints = (uint64_t)h->q << h->r;
		f->lanes = 64 / lane;
		f->counts = 1 + h->q + h->b;
		f->count_words = (f->counts + 63) / 64;
		for (i = 0; i < 16; i++) {
			f->offsets[i] = h->lines > 1 ? 1 + (near - 1) % (h->lines - 1) : 0;
			next += near; /* 1, 2, 3, 5, 8 and so on */
			near = next - near;
		}
		for (b = 0; b < 256; b++)
			for (i = k = 0; i < 8; i++)
				if (b >> i & 1)
					f->select[k++ << 8 | b] = (uint8_t)i;
	}
	while (f->lanes * lane > 64)
		f->lanes /= 2;
	f->values = ((uint64_t)1 << lane) - 1;
	for (i = 0; i < f->lanes; i++)
		f->ones |= (uint64_t)1 << (i * lane);
	f->highs = f->ones << (lane - 1);
	if (h->kind == MMF_SEMISORTED) {
		unsigned p, q, r, s;
		for (s = 0; s < 16; s++)
			for (r = 0; r <= s; r++)
				for (q = 0; q <= r; q++)
					for (p = 0; p <= q; p++)
						f->nibbles[p + (q + 1) * q / 2 + (r + 2) * (r + 1) * r / 6 + (s + 3) * (s + 2) * (s + 1) * s / 24] =
							(uint16_t)(p | q << 4 | r << 8 | s << 12);
	}
}

/* mmf_absolute returns a copy of a path that stays right when the working directory changes. It keeps
 * symbolic links, since they may later lead to another file. */
static char *mmf_absolute(const char *path) {
	size_t room = 256;
	char *whole = NULL, *more;
	if (*path == '/') {
		if ((whole = (char *)malloc(strlen(path) + 1)))
			strcpy(whole, path);
		return whole;
	}
	for (;; room *= 2) {
		if (!(more = (char *)realloc(whole, room + strlen(path) + 2)))
			break;
		whole = more;
		if (getcwd(whole, room))
			return strcat(strcat(whole, "/"), path);
		if (errno != ERANGE)
			break;
	}
	free(whole);
	return NULL;
}

static int mmf_open_at(mmf_filter *f, const char *path) {
	struct stat st;
	int err;
	/* Not blocking: path may be a pipe. */
	if ((f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		return MMF_E_SYSTEM;
	if ((err = mmf_examine(f->fd, path, &f->head, &st, &f->served)) < 0)
		return err;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	if (!(f->path = mmf_absolute(path)))
		return MMF_E_SYSTEM;
	f->map_bytes = MMF_REGION + f->head.region;
	f->map = mmap(NULL, f->map_bytes, PROT_READ, MAP_SHARED, f->fd, 0);
	if (f->map == MAP_FAILED)
		return MMF_E_SYSTEM;
	if (f->head.state != MMF_SEALED) /* R4: read-ahead would make a writer store large pages */
		(void)posix_madvise(f->map, f->map_bytes, POSIX_MADV_RANDOM);
	f->runtime = (const uint64_t *)f->map + MMF_RUNTIME / 8;
	f->stash = (const uint64_t *)f->map + MMF_STASH / 8;
	f->region = (const uint64_t *)f->map + MMF_REGION / 8;
	mmf_bind(f);
	return MMF_OK;
}

MMF_API int mmf_open(const char *path, mmf_filter **out) {
	mmf_filter *f;
	int err, saved;
	if (!out)
		return MMF_E_ARGUMENT;
	*out = NULL;
	if (!path)
		return MMF_E_ARGUMENT;
	if (!(f = (mmf_filter *)calloc(1, sizeof *f)))
		return MMF_E_SYSTEM;
	f->fd = -1;
	f->map = MAP_FAILED;
	if ((err = mmf_open_at(f, path)) < 0) {
		saved = errno;
		mmf_close(f);
		errno = saved;
		return err;
	}
	*out = f;
	return MMF_OK;
}

MMF_API void mmf_close(mmf_filter *f) {
	if (!f)
		return;
	if (f->map != MAP_FAILED)
		munmap(f->map, f->map_bytes);
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f);
}

MMF_API int mmf_status(mmf_filter *f) {
	struct stat st;
	mmf_head h;
	int served;
	if (!f)
		return MMF_E_ARGUMENT;
	if (MMF_LOAD(f->runtime + MMF_EPOCH) == ~(uint64_t)0 && mmf_is_served(f))
		return MMF_SUPERSEDED;
	if (stat(f->path, &st) != 0 || st.st_dev != f->dev || st.st_ino != f->ino)
		return MMF_REPLACED;
	if (mmf_is_served(f))
		return MMF_SERVED;
	if (mmf_examine(f->fd, f->path, &h, &st, &served) < 0 || !served || h.lines != f->head.lines || h.kind != f->head.kind || h.q != f->head.q || h.r != f->head.r || h.seed != f->head.seed)
		return mmf_locked(f->fd, 0) ? MMF_RECOVERING : MMF_UNRECOVERED;
	__atomic_store_n(&f->served, 1, __ATOMIC_RELEASE);
	return MMF_SERVED;
}

MMF_API uint64_t mmf_len(const mmf_filter *f) {
	struct stat st;
	mmf_head h;
	return mmf_read_head(f->fd, &h, &st) < 0 ? f->head.length : h.length;
}

MMF_API uint64_t mmf_capacity(const mmf_filter *f) { return f->head.capacity; }
MMF_API uint64_t mmf_seed(const mmf_filter *f) { return f->seed; }
MMF_API uint32_t mmf_shards(const mmf_filter *f, uint32_t *number) {
	if (number)
		*number = f->head.shard;
	return f->head.shards;
}

MMF_API const char *mmf_normalisation(const mmf_filter *f) { return f->head.note; }

MMF_API const char *mmf_strerror(int err) {
	switch (err) {
	case MMF_OK:
		return "no error";
	case MMF_E_SYSTEM:
		return strerror(errno);
	case MMF_E_ARGUMENT:
		return "a pointer is null";
	case MMF_E_NOT_REGULAR:
		return "not a regular file";
	case MMF_E_NOT_FILTER:
		return "not an mmapfilter file (F1: no magic)";
	case MMF_E_SHORT:
		return "damaged (F1: the file ends inside its superblocks)";
	case MMF_E_CHECKSUM:
		return "damaged (F1: no copy of the superblock has a valid checksum)";
	case MMF_E_GENERATION:
		return "damaged (F2: the generation is 0)";
	case MMF_E_VERSION:
		return "unknown version of the format (F3); a newer reader may know it";
	case MMF_E_FEATURE:
		return "unknown feature (F3); a newer reader may know it";
	case MMF_E_RESERVED:
		return "damaged (F4: a reserved byte is not 0, or there is no such shard)";
	case MMF_E_HASH:
		return "damaged (F5: the hash is unknown, or gives another canary)";
	case MMF_E_GEOMETRY:
		return "damaged (F6: layout, sizes, rate, load or capacity)";
	case MMF_E_SIZE:
		return "damaged (F6: the size of the file is not what its superblock says)";
	case MMF_E_STATE:
		return "damaged (F7: unknown state)";
	case MMF_E_LENGTH:
		return "damaged (F13: more items than fit)";
	case MMF_UNRECOVERED:
		return "its writer has died";
	case MMF_RECOVERING:
		return "its writer has died, and a process is recovering it";
	case MMF_SUPERSEDED:
		return "another file has taken its place";
	case MMF_REPLACED:
		return "the path has another file, or none";
	}
	return "unknown error";
}

#ifdef __cplusplus
}
#endif

#endif /* MMF_IMPLEMENTATION */
